import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;

import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Runs an event router and converters over records as a Connect worker does, without one: a case a line comes in,
 * its results a line go out.
 */
public class RouterDriver {

    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream results = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a plugin prints is no result.
        System.setOut(System.err);
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            results.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
    }

    private static ArrayNode run(JsonNode asked) {
        ArrayNode results = JSON.createArrayNode();
        Way way;
        try {
            way = new Way(asked);
        }
        catch (Throwable error) {
            return results.add(thrown("configure", error));
        }
        for (JsonNode record : asked.get("records")) {
            results.add(way.route(record(record, asked.get("connector").asText())));
        }
        way.router.close();
        return results;
    }

    private static ObjectNode thrown(String stage, Throwable error) {
        ObjectNode result = JSON.createObjectNode();
        return result.put("stage", stage).put("exception", error.getClass().getName()).put("text", error.getMessage());
    }

    private static class Way {
        private final Transformation<SourceRecord> router;
        private final Converter key;
        private final Converter value;
        private final HeaderConverter header;

        Way(JsonNode asked) throws Exception {
            router = plugin(asked.get("router"));
            router.configure(options(asked.get("router")));
            key = plugin(asked.get("key"));
            key.configure(options(asked.get("key")), true);
            value = plugin(asked.get("value"));
            value.configure(options(asked.get("value")), false);
            header = plugin(asked.get("header"));
            Map<String, String> headerOptions = options(asked.get("header"));
            headerOptions.put("converter.type", "header");
            header.configure(headerOptions);
        }

        ObjectNode route(SourceRecord record) {
            SourceRecord routed;
            try {
                routed = router.apply(record);
            }
            catch (Throwable error) {
                return thrown("transform", error);
            }
            if (routed == null) {
                return JSON.createObjectNode();
            }
            try {
                return message(routed);
            }
            catch (Throwable error) {
                return thrown("convert", error);
            }
        }

        private ObjectNode message(SourceRecord routed) {
            ObjectNode message = JSON.createObjectNode();
            String topic = routed.topic();
            ArrayNode headers = JSON.createArrayNode();
            for (Header one : routed.headers()) {
                byte[] text = header.fromConnectHeader(topic, one.key(), one.schema(), one.value());
                headers.add(JSON.createArrayNode().add(one.key()).add(base64(text)));
            }
            message.put("topic", topic).put("partition", routed.kafkaPartition()).put("timestamp", routed.timestamp());
            message.put("key", base64(key.fromConnectData(topic, routed.keySchema(), routed.key())));
            message.put("value", base64(value.fromConnectData(topic, routed.valueSchema(), routed.value())));
            message.set("headers", headers);
            return message;
        }
    }

    private static String base64(byte[] octets) {
        return octets == null ? null : Base64.getEncoder().encodeToString(octets);
    }

    @SuppressWarnings("unchecked")
    private static <T> T plugin(JsonNode component) throws Exception {
        return (T) Class.forName(component.get("class").asText()).getDeclaredConstructor().newInstance();
    }

    private static Map<String, String> options(JsonNode component) {
        Map<String, String> options = new HashMap<>();
        for (Iterator<Map.Entry<String, JsonNode>> all = component.get("options").fields(); all.hasNext();) {
            Map.Entry<String, JsonNode> option = all.next();
            options.put(option.getKey(), option.getValue().asText());
        }
        return options;
    }

    private static SourceRecord record(JsonNode record, String connector) {
        SchemaAndValue key = typed(record.get("key"));
        SchemaAndValue value = record.get("value").has("change")
                ? change(record.get("value").get("change"), connector)
                : typed(record.get("value"));
        ConnectHeaders headers = new ConnectHeaders();
        for (JsonNode header : record.get("headers")) {
            SchemaAndValue held = typed(header.get(1));
            headers.add(header.get(0).asText(), held.value(), held.schema());
        }
        JsonNode partition = record.get("partition");
        JsonNode timestamp = record.get("timestamp");
        return new SourceRecord(Map.of(), Map.of(), record.get("topic").asText(),
                partition.isNull() ? null : partition.intValue(), key.schema(), key.value(), value.schema(),
                value.value(), timestamp.isNull() ? null : timestamp.longValue(), headers);
    }

    /** Debezium's envelope; without a source that names its connector the router does not know whose row it is. */
    private static SchemaAndValue change(JsonNode change, String connector) {
        Schema source = SchemaBuilder.struct().name("source").field("connector", Schema.STRING_SCHEMA).build();
        SchemaAndValue after = change.has("document") ? document(change.get("document")) : row(change);
        Schema schema = SchemaBuilder.struct().name("outbox.Envelope")
                .field("before", after.schema())
                .field("after", after.schema())
                .field("source", source)
                .field("op", Schema.STRING_SCHEMA)
                .field("ts_ms", Schema.OPTIONAL_INT64_SCHEMA)
                .build();
        Struct value = new Struct(schema)
                .put("after", after.value())
                .put("source", new Struct(source).put("connector", connector))
                .put("op", change.get("op").asText());
        if (!change.get("time").isNull()) {
            value.put("ts_ms", change.get("time").longValue());
        }
        return new SchemaAndValue(schema, value);
    }

    private static SchemaAndValue document(JsonNode document) {
        Schema schema = SchemaBuilder.string().name("io.debezium.data.Json").version(1).optional().build();
        return new SchemaAndValue(schema, document.isNull() ? null : document.asText());
    }

    private static SchemaAndValue row(JsonNode change) {
        SchemaBuilder builder = SchemaBuilder.struct().optional().name(change.get("name").textValue());
        JsonNode row = change.get("row");
        for (JsonNode column : row) {
            builder.field(column.get(0).asText(), schema(column.get(1)));
        }
        Schema schema = builder.build();
        return new SchemaAndValue(schema, row.isNull() ? null : filled(schema, row));
    }

    private static Struct filled(Schema schema, JsonNode columns) {
        Struct struct = new Struct(schema);
        for (JsonNode column : columns) {
            Field field = schema.field(column.get(0).asText());
            Object value = scalar(field.schema(), column.get(1).get("value"));
            // A null in a required field with a default is one that nobody put.
            if (value != null) {
                struct.put(field, value);
            }
        }
        return struct;
    }

    private static SchemaAndValue typed(JsonNode typed) {
        if (typed.isNull()) {
            return SchemaAndValue.NULL;
        }
        Schema schema = schema(typed);
        Object value = schema.type() == Schema.Type.STRUCT
                ? filled(schema, typed.get("fields"))
                : scalar(schema, typed.get("value"));
        return new SchemaAndValue(schema, value);
    }

    private static Schema schema(JsonNode typed) {
        Schema.Type type = Schema.Type.valueOf(typed.get("type").asText());
        SchemaBuilder builder = switch (type) {
            case ARRAY -> SchemaBuilder.array(schemaOr(Schema.OPTIONAL_STRING_SCHEMA, typed.get("items")));
            case MAP -> SchemaBuilder.map(schemaOr(Schema.STRING_SCHEMA, typed.get("keys")),
                    schemaOr(Schema.OPTIONAL_STRING_SCHEMA, typed.get("items")));
            default -> new SchemaBuilder(type);
        };
        if (typed.get("optional").asBoolean()) {
            builder.optional();
        }
        if (!typed.get("name").isNull()) {
            builder.name(typed.get("name").asText());
        }
        if (!typed.get("version").isNull()) {
            builder.version(typed.get("version").intValue());
        }
        for (JsonNode parameter : typed.get("parameters")) {
            builder.parameter(parameter.get(0).asText(), parameter.get(1).asText());
        }
        if (type == Schema.Type.STRUCT && typed.has("fields")) {
            for (JsonNode field : typed.get("fields")) {
                builder.field(field.get(0).asText(), schema(field.get(1)));
            }
        }
        if (!typed.get("default").isNull()) {
            builder.defaultValue(scalar(builder, typed.get("default")));
        }
        return builder.build();
    }

    private static Schema schemaOr(Schema fallback, JsonNode typed) {
        return typed.isNull() ? fallback : schema(typed);
    }

    private static Object scalar(Schema schema, JsonNode value) {
        if (value.isNull()) {
            return null;
        }
        String name = schema.name() == null ? "" : schema.name();
        if (name.equals("org.apache.kafka.connect.data.Decimal")) {
            return new BigDecimal(value.asText());
        }
        if (name.equals("org.apache.kafka.connect.data.Date")) {
            return new Date(value.longValue() * 86_400_000L);
        }
        if (name.startsWith("org.apache.kafka.connect.data.")) {
            return new Date(value.longValue());
        }
        return switch (schema.type()) {
            case STRING -> value.asText();
            case INT8 -> (byte) value.intValue();
            case INT16 -> (short) value.intValue();
            case INT32 -> value.intValue();
            case INT64 -> value.longValue();
            case FLOAT32 -> Float.parseFloat(value.asText());
            case FLOAT64 -> Double.parseDouble(value.asText());
            case BOOLEAN -> value.booleanValue();
            case BYTES -> ByteBuffer.wrap(Base64.getDecoder().decode(value.asText()));
            default -> throw new IllegalArgumentException("no value of " + schema.type() + " can be given");
        };
    }
}
