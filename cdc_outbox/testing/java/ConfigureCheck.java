import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.ServiceConfigurationError;
import java.util.Set;
import java.util.TreeMap;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Configures every transformation, predicate and converter of a connector's configuration, as a worker does at its start.
 *
 * Argument: the plugin path. Input: a configuration a line, as JSON. Output: a line for each, a list of
 * {"option", "error", "message"}, empty if all of them took their options.
 */
public class ConfigureCheck {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Plugins plugins;
    private final Map<String, String> config;
    private final List<Map<String, String>> refusals = new ArrayList<>();
    private Object connector;

    private ConfigureCheck(Plugins plugins, Map<String, String> config) {
        this.plugins = plugins;
        this.config = config;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err); // what plugins log is not an answer
        Plugins plugins = new Plugins(Map.of("plugin.path", arguments[0], "plugin.discovery", "service_load"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, String> config = JSON.readValue(line, new TypeReference<Map<String, String>>() { });
            out.println(JSON.writeValueAsString(new ConfigureCheck(plugins, config).check()));
        }
    }

    private List<Map<String, String>> check() {
        attempt("connector.class", () -> connector = create("connector.class", "connector.plugin.version"));
        for (String side : List.of("key.converter", "value.converter", "header.converter")) {
            if (config.containsKey(side)) {
                attempt(side, () -> configureConverter(side));
            }
        }
        Set<String> predicates = names("predicates");
        for (String alias : names("transforms")) {
            String prefix = "transforms." + alias + ".";
            attempt("transforms." + alias, () -> {
                Map<String, Object> own = below(prefix);
                own.remove("predicate");
                own.remove("negate");
                ((Transformation<?>) create(prefix + "type", prefix + "plugin.version")).configure(own);
            });
            String predicate = config.get(prefix + "predicate");
            if (predicate != null && !predicates.contains(predicate)) {
                refuse(prefix + "predicate", "UnknownPredicate", "there is no predicate " + predicate);
            }
        }
        // A worker makes one for each transformation that refers to it, and none that nobody refers to.
        for (String alias : predicates) {
            String prefix = "predicates." + alias + ".";
            attempt("predicates." + alias, () -> ((Predicate<?>) create(prefix + "type", prefix + "plugin.version")).configure(below(prefix)));
        }
        for (String alias : names("converters")) {
            attempt("converters." + alias, () -> configureColumnConverter(alias));
        }
        return refusals;
    }

    private void configureConverter(String side) throws Exception {
        Map<String, Object> own = below(side + ".");
        own.put("converter.type", side.substring(0, side.indexOf('.')));
        Object converter = create(side, side + ".plugin.version");
        if (side.startsWith("header")) {
            ((HeaderConverter) converter).configure(own);
        } else {
            ((Converter) converter).configure(own, side.startsWith("key"));
        }
    }

    /** Debezium's own kind, which changes the types of columns; it is known to the connector's loader only. */
    private void configureColumnConverter(String alias) throws Exception {
        ClassLoader loader = connector.getClass().getClassLoader();
        Object converter = loader.loadClass(config.get(alias + ".type")).getDeclaredConstructor().newInstance();
        Properties own = new Properties();
        own.putAll(below(alias + "."));
        try {
            loader.loadClass("io.debezium.spi.converter.CustomConverter").getMethod("configure", Properties.class).invoke(converter, own);
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause() instanceof Exception cause ? cause : error;
        }
    }

    private Object create(String type, String version) throws Exception {
        String name = config.get(type);
        if (name == null) {
            throw new IllegalArgumentException(type + " is missing");
        }
        return plugins.newPlugin(name, PluginUtils.connectorVersionRequirement(config.get(version)));
    }

    private Map<String, Object> below(String prefix) {
        Map<String, Object> own = new TreeMap<>();
        config.forEach((option, value) -> {
            if (option.startsWith(prefix) && option.length() > prefix.length()) {
                own.put(option.substring(prefix.length()), value);
            }
        });
        return own;
    }

    private Set<String> names(String option) {
        Set<String> names = new LinkedHashSet<>();
        for (String name : config.getOrDefault(option, "").split(",")) {
            if (!name.isBlank()) {
                names.add(name.trim());
            }
        }
        return names;
    }

    private void attempt(String option, Attempt attempt) {
        ClassLoader before = Thread.currentThread().getContextClassLoader();
        try {
            // A worker makes all of them for a connector, so what they look up by name is looked up beside it.
            if (!option.equals("connector.class") && connector != null) {
                Thread.currentThread().setContextClassLoader(connector.getClass().getClassLoader());
            }
            attempt.run();
        } catch (Exception | LinkageError | ServiceConfigurationError error) {
            refuse(option, error.getClass().getName(), String.valueOf(error.getMessage()));
        } finally {
            Thread.currentThread().setContextClassLoader(before);
        }
    }

    private void refuse(String option, String error, String message) {
        refusals.add(Map.of("option", option, "error", error, "message", message));
    }

    private interface Attempt {
        void run() throws Exception;
    }
}
