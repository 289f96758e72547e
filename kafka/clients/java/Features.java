import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** Tries the features of Kafka's own clients: java -cp LIBS Features.java BOOTSTRAP PREFIX */
public class Features {
    interface Attempt {
        void run() throws Exception;
    }

    private static final Duration WAIT = Duration.ofSeconds(60);
    private static final List<String> VALUES = new ArrayList<>();
    private static String bootstrap;
    private static String prefix;

    public static void main(String[] args) {
        bootstrap = args[0];
        prefix = args[1];
        for (int number = 0; number < 10; number++) {
            VALUES.add(("value " + number + " ").repeat(20));
        }
        Map<String, Attempt> features = new LinkedHashMap<>();
        features.put("records", Features::records);
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
            features.put(codec, () -> exchange(codec, Map.of("compression.type", codec, "linger.ms", "20")));
        }
        features.put("groups", () -> group("groups", "classic"));
        features.put("groups-848", () -> group("groups-848", "consumer"));
        features.put("idempotence", () -> exchange("idempotence", Map.of("enable.idempotence", "true")));
        features.put("transactions", Features::transactions);
        features.put("topics", Features::topics);
        features.put("configs", Features::configs);
        StringJoiner found = new StringJoiner(", ");
        features.forEach((name, attempt) -> found.add("\"" + name + "\": \"" + outcome(attempt) + "\""));
        System.out.println("{\"version\": \"" + AppInfoParser.getVersion() + "\", \"features\": {" + found + "}}");
    }

    private static String outcome(Attempt attempt) {
        try {
            attempt.run();
            return "ok";
        } catch (Exception error) {
            return "failed: " + error.toString().replace('"', '\'').replace('\n', ' ');
        }
    }

    private static String topic(String feature) {
        return prefix + "-" + feature;
    }

    private static void expect(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new IllegalStateException(found + " instead of " + expected);
        }
    }

    private static Map<String, Object> with(Map<String, String> options, String... more) {
        Map<String, Object> all = new LinkedHashMap<>(options);
        all.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < more.length; index += 2) {
            all.put(more[index], more[index + 1]);
        }
        return all;
    }

    private static KafkaProducer<String, String> producer(Map<String, String> options) {
        return new KafkaProducer<>(with(options), new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Map<String, String> options) {
        Map<String, Object> all = with(
            options, "auto.offset.reset", "earliest", "enable.auto.commit", "false", "isolation.level", "read_committed");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    private static void send(String feature, List<String> sent, Map<String, String> options) throws Exception {
        try (KafkaProducer<String, String> producer = producer(options)) {
            List<Future<RecordMetadata>> futures = new ArrayList<>();
            for (String value : sent) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic(feature), "key", value);
                record.headers().add("name", "header".getBytes());
                futures.add(producer.send(record));
            }
            for (Future<RecordMetadata> future : futures) {
                future.get();
            }
        }
    }

    private static List<ConsumerRecord<String, String>> polled(KafkaConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        long deadline = System.nanoTime() + WAIT.toNanos();
        while (found.size() < count) {
            consumer.poll(Duration.ofSeconds(1)).forEach(found::add);
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException(found.size() + " of " + count + " records");
            }
        }
        return found;
    }

    private static List<ConsumerRecord<String, String>> read(String feature, int count) {
        try (KafkaConsumer<String, String> reader = consumer(Map.of())) {
            reader.assign(List.of(new TopicPartition(topic(feature), 0)));
            return polled(reader, count);
        }
    }

    private static List<String> values(List<ConsumerRecord<String, String>> records) {
        return records.stream().map(ConsumerRecord::value).toList();
    }

    private static void records() throws Exception {
        send("records", List.of("value"), Map.of());
        ConsumerRecord<String, String> found = read("records", 1).get(0);
        String header = new String(found.headers().lastHeader("name").value());
        expect(List.of(found.key(), found.value(), header), List.of("key", "value", "header"));
    }

    private static void exchange(String feature, Map<String, String> options) throws Exception {
        send(feature, VALUES, options);
        expect(values(read(feature, VALUES.size())), VALUES);
    }

    private static void transactions() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", topic("transactions")))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic("transactions"), "dropped")).get();
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic("transactions"), "kept")).get();
            producer.commitTransaction();
        }
        expect(values(read("transactions", 1)), List.of("kept"));
    }

    private static void group(String feature, String protocol) throws Exception {
        for (List<String> sent : List.of(List.of("1", "2"), List.of("3"))) {
            send(feature, sent, Map.of());
            Map<String, String> options = Map.of("group.id", topic(feature), "group.protocol", protocol);
            try (KafkaConsumer<String, String> member = consumer(options)) {
                member.subscribe(List.of(topic(feature)));
                expect(values(polled(member, sent.size())), sent);
                member.commitSync();
            }
        }
    }

    private static void topics() throws Exception {
        try (Admin admin = Admin.create(with(Map.of()))) {
            List<NewTopic> made = List.of("made", "gone").stream()
                .map(end -> new NewTopic(topic(end), Optional.of(2), Optional.empty())).toList();
            admin.createTopics(made).all().get();
            admin.deleteTopics(List.of(topic("gone"))).all().get();
        }
    }

    private static void configs() throws Exception {
        try (Admin admin = Admin.create(with(Map.of()))) {
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic("configs"));
            ConfigEntry option = new ConfigEntry("retention.ms", "60000");
            admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(option, AlterConfigOp.OpType.SET)))).all().get();
        }
    }
}
