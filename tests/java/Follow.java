import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeClusterResult;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Follows one partition from its beginning, over restarts of the broker.
 *
 * <p>Prints how many nodes there are and which one is the controller, then the value of each record that
 * comes, and ends after COUNT of them.
 *
 * <p>Usage: Follow BOOTSTRAP TOPIC PARTITION COUNT
 */
public final class Follow {
    private Follow() {}

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("reconnect.backoff.max.ms", "200");
        try (Admin admin = Admin.create(properties)) {
            DescribeClusterResult told = admin.describeCluster();
            out.println(told.nodes().get().size() + " " + told.controller().get().id());
        }
        properties.put("enable.auto.commit", "false");
        // A log that has lost what was read is to be told, and not begun again.
        properties.put("auto.offset.reset", "none");
        properties.put("key.deserializer", StringDeserializer.class.getName());
        properties.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(properties)) {
            TopicPartition partition = new TopicPartition(args[1], Integer.parseInt(args[2]));
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (int left = Integer.parseInt(args[3]); left > 0; ) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofSeconds(1))) {
                    out.println(record.value());
                    left--;
                }
            }
        }
    }
}
