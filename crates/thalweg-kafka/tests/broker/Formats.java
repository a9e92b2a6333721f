import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Writes records by Kafka's own client in all ways to compress them, and some in transactions. */
public class Formats {
    static final int EACH = 300;

    public static void main(String[] arguments) {
        String brokers = arguments[0], topic = arguments[1];
        long begin = Long.parseLong(arguments[2]);
        int n = 0;
        for (String compression : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            Properties properties = properties(brokers, compression);
            try (KafkaProducer<byte[], byte[]> producer = producer(properties)) {
                for (int end = n + EACH; n < end; n++) {
                    producer.send(record(topic, n, begin));
                }
            }
        }
        Properties properties = properties(brokers, "lz4");
        properties.put("transactional.id", topic);
        try (KafkaProducer<byte[], byte[]> producer = producer(properties)) {
            producer.initTransactions();
            for (boolean commits : new boolean[] {false, true, false, true, false}) {
                producer.beginTransaction();
                for (int at = 0; at < 10; at++) {
                    producer.send(record(topic, commits ? n++ : -1, begin));
                }
                producer.flush();
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    static Properties properties(String brokers, String compression) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", brokers);
        properties.put("compression.type", compression);
        // Batches of several blocks of Snappy's.
        properties.put("batch.size", "200000");
        properties.put("linger.ms", "50");
        return properties;
    }

    static KafkaProducer<byte[], byte[]> producer(Properties properties) {
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Keys, values, headers and their values are missing now and then. */
    static ProducerRecord<byte[], byte[]> record(String topic, int n, long begin) {
        byte[] key = n % 3 == 0 ? null : bytes("key " + n);
        byte[] value = n % 7 == 0 ? null : bytes(("value " + n + ";").repeat(n % 50 + 1));
        List<Header> headers = n % 2 == 0
            ? List.of()
            : Arrays.asList(new RecordHeader("n", bytes("" + n)), new RecordHeader("nothing", null));
        return new ProducerRecord<>(topic, 0, begin + n, key, value, headers);
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
