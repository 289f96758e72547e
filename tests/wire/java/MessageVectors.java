import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

/**
 * Prints random messages of Kafka's own classes as test vectors, one JSON object a line: class, version, fields, bytes.
 *
 * Each argument is a class of generated messages, ':' and the lowest and highest version: pkg.FetchRequestData:4-18.
 * The classpath holds the jar that has the classes, and Jackson for Kafka's JSON converters.
 */
public class MessageVectors {
    static final Random RANDOM = new Random(7);
    static final int PER_VERSION = 4;

    public static void main(String[] arguments) throws Exception {
        for (String argument : arguments) {
            String name = argument.substring(0, argument.indexOf(':'));
            String[] range = argument.substring(argument.indexOf(':') + 1).split("-");
            for (short version = Short.parseShort(range[0]); version <= Short.parseShort(range[1]); version++) {
                for (int i = 0; i < PER_VERSION; i++) {
                    print(Class.forName(name), version, i == 0);
                }
            }
        }
    }

    static void print(Class<?> type, short version, boolean defaults) throws Exception {
        Message message = (Message) (defaults ? type.getDeclaredConstructor().newInstance() : fill(type, version));
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        Object json = Class.forName(type.getName() + "JsonConverter")
            .getMethod("write", type, short.class).invoke(null, message, version);
        String name = type.getSimpleName().replaceFirst("Data$", "");
        System.out.printf("{\"class\":\"%s\",\"version\":%d,\"fields\":%s,\"bytes\":\"%s\"}%n",
            name, version, json, HexFormat.of().formatHex(buffer.array()));
    }

    static Object fill(Class<?> type, short version) throws Exception {
        Object made = type.getDeclaredConstructor().newInstance();
        Map<String, Boolean> nullable = fields(type, version);
        for (Method setter : type.getMethods()) {
            String name = setter.getName().substring(Math.min(3, setter.getName().length())).toLowerCase();
            if (setter.getName().startsWith("set") && nullable.containsKey(name)) {
                boolean empty = nullable.get(name) && RANDOM.nextInt(3) == 0;
                setter.invoke(made, empty ? null : value(setter.getGenericParameterTypes()[0], version));
            }
        }
        return made;
    }

    /** The fields that the version has, in lower case without separators, and whether each may be null. */
    static Map<String, Boolean> fields(Class<?> type, short version) throws Exception {
        Map<String, Boolean> found = new HashMap<>();
        for (BoundField field : ((Schema[]) type.getField("SCHEMAS").get(null))[version].fields()) {
            if (field.def.type instanceof TaggedFields) {
                java.lang.reflect.Field inside = TaggedFields.class.getDeclaredField("fields");
                inside.setAccessible(true);
                for (Object tagged : ((Map<?, ?>) inside.get(field.def.type)).values()) {
                    found.put(((Field) tagged).name.replace("_", ""), false);
                }
            } else {
                found.put(field.def.name.replace("_", ""), field.def.type.isNullable());
            }
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    static Object value(Type type, short version) throws Exception {
        if (type instanceof ParameterizedType) return elements(new ArrayList<>(), (ParameterizedType) type, version);
        if (Collection.class.isAssignableFrom((Class<?>) type)) {
            Collection<Object> keyed = (Collection<Object>) ((Class<?>) type).getDeclaredConstructor().newInstance();
            return elements(keyed, (ParameterizedType) ((Class<?>) type).getGenericSuperclass(), version);
        }
        if (type == boolean.class) return RANDOM.nextBoolean();
        if (type == byte.class) return (byte) RANDOM.nextInt();
        if (type == short.class || type == Short.class) return (short) RANDOM.nextInt();
        if (type == int.class || type == Integer.class) return RANDOM.nextInt();
        if (type == long.class || type == Long.class) return RANDOM.nextLong();
        if (type == double.class) return RANDOM.nextDouble();
        if (type == String.class) return text();
        if (type == Uuid.class) return new Uuid(RANDOM.nextLong(), RANDOM.nextLong());
        if (type == byte[].class) return text().getBytes();
        if (type == ByteBuffer.class) return ByteBuffer.wrap(text().getBytes());
        return fill((Class<?>) type, version);
    }

    static Collection<Object> elements(Collection<Object> made, ParameterizedType type, short version) throws Exception {
        for (int left = RANDOM.nextInt(3); left > 0; left--) {
            made.add(value(type.getActualTypeArguments()[0], version));
        }
        return made;
    }

    static String text() {
        return "flüge-".repeat(RANDOM.nextInt(8) == 0 ? 30 : RANDOM.nextInt(3)) + RANDOM.nextInt(100);
    }
}
