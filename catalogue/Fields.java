import java.io.File;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarFile;

import com.fasterxml.jackson.databind.ObjectMapper;

/**
 * Prints the options that a Debezium plugin's classes declare, also those that its connector does not tell a worker.
 *
 * Arguments: the plugin's folder. Output: one JSON object, option to its declarations, each with its class.
 */
public class Fields {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // what classes log on their way is not the answer
        List<URL> jars = new ArrayList<>();
        File[] files = new File(arguments[0]).listFiles();
        Arrays.sort(files); // the answer shall not depend on the file system
        for (File file : files) {
            if (file.getName().endsWith(".jar")) {
                jars.add(file.toURI().toURL());
            }
        }
        Map<String, List<Map<String, Object>>> options = new TreeMap<>();
        try (URLClassLoader loader = new URLClassLoader(jars.toArray(new URL[0]))) {
            Thread.currentThread().setContextClassLoader(loader);
            for (URL jar : jars) {
                if (new File(jar.toURI()).getName().startsWith("debezium-")) {
                    collect(new JarFile(new File(jar.toURI())), loader, options);
                }
            }
        }
        out.println(new ObjectMapper().writeValueAsString(options));
        out.flush();
        System.exit(0); // a class may have started a thread
    }

    private static void collect(JarFile jar, ClassLoader loader, Map<String, List<Map<String, Object>>> options) {
        jar.stream().map(entry -> entry.getName()).filter(name -> name.endsWith(".class")).sorted().forEach(name -> {
            try {
                Class<?> declaring = Class.forName(name.replace('/', '.').replace(".class", ""), false, loader);
                for (Field field : declaring.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers()) && field.getType().getName().equals("io.debezium.config.Field")) {
                        field.setAccessible(true);
                        add(field.get(null), declaring, options);
                    }
                }
            } catch (ReflectiveOperationException | LinkageError error) {
                // Classes for what is not there, such as a registry's client, cannot be loaded.
            }
        });
    }

    private static void add(Object option, Class<?> declaring, Map<String, List<Map<String, Object>>> options) throws ReflectiveOperationException {
        if (option == null) {
            return;
        }
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("class", declaring.getName());
        facts.put("type", text(ask(option, "type")));
        facts.put("default", ask(option, "defaultValueAsString"));
        facts.put("importance", text(ask(option, "importance")));
        facts.put("required", ask(option, "isRequired"));
        facts.put("allowed", texts(ask(option, "allowedValues")));
        facts.put("aliases", texts(ask(option, "deprecatedAliases")));
        options.computeIfAbsent((String) ask(option, "name"), name -> new ArrayList<>()).add(facts);
    }

    private static Object ask(Object option, String what) throws ReflectiveOperationException {
        try {
            return option.getClass().getMethod(what).invoke(option);
        } catch (NoSuchMethodException error) {
            return null; // an older version's
        }
    }

    private static String text(Object value) {
        return value == null ? null : value.toString();
    }

    private static List<String> texts(Object values) {
        List<String> texts = new ArrayList<>();
        if (values instanceof Collection<?> collection) {
            collection.forEach(value -> texts.add(String.valueOf(value)));
        }
        texts.sort(null);
        return texts;
    }
}
