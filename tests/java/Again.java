import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import sun.misc.Signal;

/**
 * Produces with acks=all until it is told to end (SIGTERM), and prints what was acknowledged: what
 * tests/python/again.py does, with Apache Kafka's own client.
 *
 * <p>Usage: Again BOOTSTRAP PARTITIONS NAME TOPIC[,TOPIC ...] [NAME=VALUE ...]
 */
public final class Again {
    private static final int IN_FLIGHT_MAX = 200;

    private Again() {}

    public static void main(String[] args) throws InterruptedException {
        int partitions = Integer.parseInt(args[1]);
        String name = args[2];
        String[] topics = args[3].split(",");
        AtomicBoolean isTold = new AtomicBoolean();
        Signal.handle(new Signal("TERM"), signal -> isTold.set(true));
        AtomicBoolean isLost = new AtomicBoolean();
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Semaphore room = new Semaphore(IN_FLIGHT_MAX);
        Random sizes = new Random(name.hashCode());
        Properties properties = properties(args);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(properties)) {
            for (int sequence = 0; !isTold.get() && !isLost.get(); sequence++) {
                room.acquire();
                String value = name + ":" + sequence + ":" + "x".repeat(sizes.nextInt(600));
                String topic = topics[sequence / partitions % topics.length];
                ProducerRecord<String, String> record =
                        new ProducerRecord<>(topic, sequence % partitions, null, value);
                producer.send(record, (told, error) -> {
                    room.release();
                    if (error == null) {
                        out.println(topic + " " + told.partition() + " " + told.offset() + " " + value);
                    } else if (!isLost.getAndSet(true)) {
                        error.printStackTrace();
                    }
                });
            }
        }
        System.exit(isLost.get() ? 1 : 0);
    }

    private static Properties properties(String[] args) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", args[0]);
        properties.put("acks", "all");
        properties.put("enable.idempotence", "false");
        // More than one request under way could put a batch that is sent again behind the next one,
        // where the producer is not idempotent.
        properties.put("max.in.flight.requests.per.connection", "1");
        properties.put("delivery.timeout.ms", "80000");
        properties.put("key.serializer", StringSerializer.class.getName());
        properties.put("value.serializer", StringSerializer.class.getName());
        for (int place = 4; place < args.length; place++) {
            String[] property = args[place].split("=", 2);
            properties.put(property[0], property[1]);
        }
        return properties;
    }
}
