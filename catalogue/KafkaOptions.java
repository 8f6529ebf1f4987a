import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;

/**
 * Prints what `producer.override.` may stand before, and what a worker does not tell of the connectors' common options:
 * two JSON objects in one, option to what is known of it.
 */
public class KafkaOptions {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> both = Map.of(
                "producer", facts(ProducerConfig.configDef()),
                "framework", facts(SourceConnectorConfig.configDef()));
        System.out.println(new ObjectMapper().writeValueAsString(both));
    }

    private static Map<String, Map<String, Object>> facts(ConfigDef definition) {
        Map<String, Map<String, Object>> options = new TreeMap<>();
        for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
            Map<String, Object> facts = new LinkedHashMap<>();
            facts.put("type", key.type.toString());
            facts.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            facts.put("importance", key.importance.toString());
            facts.put("validator", String.valueOf(key.validator));
            options.put(key.name, facts);
        }
        return options;
    }
}
