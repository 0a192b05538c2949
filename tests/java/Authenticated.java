import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Writes one value to partition 0 of a topic with SASL/PLAIN, and prints all that is there.
 *
 * <p>Usage: Authenticated BOOTSTRAP TENANT TOKEN TOPIC VALUE
 *
 * <p>Of what goes wrong it prints the first sentence, and ends with 1.
 */
public final class Authenticated {
    private Authenticated() {}

    public static void main(String[] args) throws InterruptedException {
        Properties properties = properties(args[0], args[1], args[2]);
        TopicPartition place = new TopicPartition(args[3], 0);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties);
                KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            long offset = producer.send(new ProducerRecord<>(args[3], 0, null, args[4])).get().offset();
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long next = 0;
            while (next <= offset) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.value());
                    next = record.offset() + 1;
                }
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            System.out.println(cause.getClass().getSimpleName() + ": " + cause.getMessage());
            System.exit(1);
        }
    }

    private static Properties properties(String bootstrap, String tenant, String token) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("security.protocol", "SASL_PLAINTEXT");
        properties.put("sasl.mechanism", "PLAIN");
        properties.put(
                "sasl.jaas.config",
                "org.apache.kafka.common.security.plain.PlainLoginModule required username=\""
                        + tenant + "\" password=\"" + token + "\";");
        properties.put("enable.idempotence", "false");
        properties.put("enable.auto.commit", "false");
        properties.put("max.block.ms", "20000");
        properties.put("default.api.timeout.ms", "20000");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        return properties;
    }
}
