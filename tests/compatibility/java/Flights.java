import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;

/**
 * Counts flights, and adds up their miles and minutes of delay, by carrier and hour: exactly_once_v2, from the topic
 * "flights" to the topic "totals". Input values are "carrier,hour,miles,minutes", output values "flights,miles,minutes".
 *
 * java -cp LIBS Flights.java BOOTSTRAP APPLICATION STATE_FOLDER
 */
public class Flights {
    public static void main(String[] args) {
        Properties options = new Properties();
        options.put("bootstrap.servers", args[0]);
        options.put("application.id", args[1]);
        options.put("state.dir", args[2]);
        options.put("processing.guarantee", "exactly_once_v2");
        options.put("num.stream.threads", "2");
        options.put("commit.interval.ms", "100");
        options.put("replication.factor", "3");
        options.put("default.key.serde", Serdes.StringSerde.class);
        options.put("default.value.serde", Serdes.StringSerde.class);
        options.put("consumer.session.timeout.ms", "6000");
        options.put("consumer.heartbeat.interval.ms", "500");
        options.put("consumer.auto.offset.reset", "earliest");
        options.put("producer.transaction.timeout.ms", "5000");

        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("flights")
            .groupBy((tail, flight) -> carrierAndHour(flight), Grouped.as("by-carrier-and-hour"))
            .aggregate(() -> "0,0,0", (key, flight, totals) -> plus(totals, flight), Materialized.as("totals"))
            .toStream()
            .to("totals");

        KafkaStreams streams = new KafkaStreams(builder.build(), options);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        streams.start();
    }

    private static String carrierAndHour(String flight) {
        String[] fields = flight.split(",");
        return fields[0] + "," + fields[1];
    }

    private static String plus(String totals, String flight) {
        String[] sums = totals.split(",");
        String[] fields = flight.split(",");
        return (Long.parseLong(sums[0]) + 1)
            + "," + (Long.parseLong(sums[1]) + Long.parseLong(fields[2]))
            + "," + (Long.parseLong(sums[2]) + Long.parseLong(fields[3]));
    }
}
