import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * What becomes of transactions to partition 0 of a topic: one line each, with the exception where there is one.
 *
 * java -cp LIBS Transactions.java BOOTSTRAP TOPIC
 */
public class Transactions {
    interface Step {
        void run() throws Exception;
    }

    private static String bootstrap;
    private static String topic;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        try (KafkaProducer<String, String> first = producer("one", 60_000)) {
            tell("begin before the id is there", first::beginTransaction);
            tell("init", first::initTransactions);
            first.beginTransaction();
            write(first, "kept");
            tell("commit", first::commitTransaction);
            first.beginTransaction();
            write(first, "dropped");
            tell("abort", first::abortTransaction);
            first.beginTransaction();
            place(first, 5);
            tell("commit a position", first::commitTransaction);
            first.beginTransaction();
            place(first, 9);
            tell("abort a position", first::abortTransaction);
            committed();
            tell("commit nothing", () -> {
                first.beginTransaction();
                first.commitTransaction();
            });
            first.beginTransaction();
            write(first, "of a zombie");
            try (KafkaProducer<String, String> second = producer("one", 60_000)) {
                second.initTransactions();
                tell("commit when fenced", first::commitTransaction);
                tell("begin when fenced", first::beginTransaction);
                second.beginTransaction();
                write(second, "of the next");
                tell("commit of the next", second::commitTransaction);
            }
        }
        try (KafkaProducer<String, String> slow = producer("slow", 4_000);
                KafkaProducer<String, String> other = producer("slow too", 4_000)) { // their time runs out at once
            slow.initTransactions();
            other.initTransactions();
            slow.beginTransaction();
            other.beginTransaction();
            write(slow, "too late");
            write(other, "too late again");
            awaitAbort("slow");
            tell("commit too late", slow::commitTransaction);
            tell("abort too late", slow::abortTransaction);
            awaitAbort("slow too");
            tell("write too late", () -> write(other, "later still"));
            tell("abort what was refused", other::abortTransaction);
        }
        try (KafkaProducer<String, String> next = producer("slow", 4_000)) {
            next.initTransactions();
        }
        try (KafkaProducer<String, String> greedy = producer("greedy", 900_001)) {
            tell("init with too much time", greedy::initTransactions);
        }
    }

    private static KafkaProducer<String, String> producer(String id, int timeout) {
        Properties options = new Properties();
        options.put("bootstrap.servers", bootstrap);
        options.put("transactional.id", topic + "-" + id);
        options.put("transaction.timeout.ms", timeout);
        options.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        options.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(options);
    }

    private static void write(KafkaProducer<String, String> producer, String value) throws Exception {
        producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
    }

    private static void place(KafkaProducer<String, String> producer, long offset) {
        producer.sendOffsetsToTransaction(
            Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(offset)), new ConsumerGroupMetadata(topic));
    }

    private static void committed() throws Exception {
        try (Admin admin = admin()) {
            var places = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
            System.out.println("position: " + places.get(new TopicPartition(topic, 0)).offset());
        }
    }

    private static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    private static void awaitAbort(String id) throws Exception {
        String name = topic + "-" + id;
        try (Admin admin = admin()) {
            while (admin.describeTransactions(List.of(name)).description(name).get().state()
                    != TransactionState.COMPLETE_ABORT) {
                Thread.sleep(20);
            }
        }
    }

    private static void tell(String what, Step step) {
        String outcome = "done";
        try {
            step.run();
        } catch (Exception thrown) {
            Throwable cause = thrown instanceof java.util.concurrent.ExecutionException ? thrown.getCause() : thrown;
            outcome = cause.getClass().getSimpleName();
        }
        System.out.println(what + ": " + outcome);
    }
}
