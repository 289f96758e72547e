import java.io.FileInputStream;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** A broker and its clients in one JVM, which loads their classes and ends: Classes SERVER_PROPERTIES BOOTSTRAP. */
public class Classes {
    public static void main(String[] arguments) throws Exception {
        Thread broker = new Thread(() -> kafka.Kafka.main(new String[] {arguments[0]}));
        broker.setDaemon(true);
        broker.start();
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[1]);
        properties.put("group.id", "classes");
        properties.put("group.protocol", "consumer");
        properties.put("auto.offset.reset", "earliest");
        for (String side : List.of("key", "value")) {
            properties.put(side + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
            properties.put(side + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        }
        try (Admin admin = Admin.create(properties)) {
            admin.createTopics(List.of(new NewTopic("classes", 1, (short) 1))).all().get();
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            producer.send(new ProducerRecord<>("classes", "a record")).get();
        }
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            consumer.subscribe(List.of("classes"));
            while (consumer.poll(java.time.Duration.ofSeconds(1)).isEmpty()) { }
            consumer.commitSync();
        }
        System.exit(0);
    }
}
