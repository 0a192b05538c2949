import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * The cells of the client matrix with Apache Kafka's own client. tests/clients/README.md says what
 * the arguments and the lines mean.
 */
public final class Cells {
    private static final String GIVEN = "given.read";
    private static final String FORMS = "given.forms";
    private static final long TIME_MS = 1_700_000_055_500L;
    private static final int TIMEOUT_MS = 20_000;
    private static final int LARGE_MAX = 6_000_000;
    private static final int ENOUGH = 100;
    private static final int NONE = -1;
    private static final String STORE_PASSWORD = "not a secret";

    private final Map<String, String> options = new HashMap<>();

    public static void main(String[] args) {
        Cells cells = new Cells();
        for (String arg : args) {
            String[] parts = arg.split("=", 2);
            if (parts.length == 2) {
                cells.options.put(parts[0], parts[1]);
            } else {
                cells.line(arg);
            }
        }
    }

    /** Runs a cell and tells how it went. */
    private void line(String cell) {
        long begin = System.nanoTime();
        String state = "ok";
        String detail;
        try {
            detail = run(cell);
        } catch (Exception error) {
            state = "no";
            detail = told(error);
        }
        detail = detail.trim().replaceAll("\\s+", " ");
        long tookMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
        System.out.println(cell + "\t" + state + "\t" + detail + "\t" + tookMs);
    }

    /** What a user sees of an error. */
    private static String told(Throwable error) {
        boolean wraps = error instanceof ExecutionException && error.getCause() != null;
        Throwable shown = wraps ? error.getCause() : error;
        String cause = shown.getCause() == null ? "" : "; caused by " + shown.getCause().getMessage();
        return shown.getMessage() == null ? shown.toString() : shown.getMessage() + cause;
    }

    private String run(String cell) throws Exception {
        switch (cell) {
            case "version": return version();
            case "list": return list();
            case "acks-0":
            case "acks-1":
            case "acks-all":
                return send("made", values(cell, 1), "acks", cell.substring("acks-".length()));
            case "none":
            case "gzip":
            case "snappy":
            case "lz4":
            case "zstd":
                return send("made", values(cell, 20), "compression.type", cell, "linger.ms", "100");
            case "idempotent":
                return send("made", values(cell, 20), "enable.idempotence", "true");
            case "earliest":
            case "offset":
            case "timestamp":
            case "seek":
                return read(cell);
            case "latest": return follow(cell, 1);
            case "tail": return follow(cell, 3);
            case "headers": return headers();
            case "nulls": return nulls();
            case "large": return sized(900_000);
            case "huge": return sized(5_000_000);
            case "ends": return ends();
            case "group": return group();
            case "transaction": return transaction();
            case "group-assign": return groupAssign();
            case "lost":
            case "lost-idempotent":
                return send("lost", values(cell, 10), "bootstrap.servers", options.get("lossy"),
                        "enable.idempotence", Boolean.toString(cell.equals("lost-idempotent")));
            case "timed-out":
                return oneByOne(values(cell, 3), 1, "request.timeout.ms", "1000", "delivery.timeout.ms", "4000");
            case "forgotten":
                return oneByOne(values(cell, 3), NONE);
            default: throw new IllegalArgumentException("its program here knows no such cell");
        }
    }

    private Properties config(String... more) {
        Properties found = new Properties();
        found.put("bootstrap.servers", options.get("bootstrap"));
        found.put("client.id", options.get("name"));
        boolean hasTls = options.containsKey("ca");
        boolean hasUser = options.containsKey("user");
        found.put("security.protocol", (hasUser ? "SASL_" : "") + (hasTls ? "SSL" : "PLAINTEXT"));
        if (hasTls) {
            found.put("ssl.truststore.type", "PKCS12");
            found.put("ssl.truststore.location", trusted());
            found.put("ssl.truststore.password", STORE_PASSWORD);
        }
        if (hasUser) {
            found.put("sasl.mechanism", "PLAIN");
            found.put("sasl.jaas.config", String.format(
                    "org.apache.kafka.common.security.plain.PlainLoginModule required"
                            + " username=\"%s\" password=\"%s\";",
                    options.get("user"), options.get("password")));
        }
        for (int at = 0; at < more.length; at += 2) {
            found.put(more[at], more[at + 1]);
        }
        return found;
    }

    /** The authority's certificate in a form that the oldest client takes, too. */
    private String trusted() {
        try (InputStream pem = Files.newInputStream(Paths.get(options.get("ca")))) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            store.load(null, null);
            store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(pem));
            Path file = Files.createTempFile("felix", ".p12");
            file.toFile().deleteOnExit();
            try (OutputStream out = Files.newOutputStream(file)) {
                store.store(out, STORE_PASSWORD.toCharArray());
            }
            return file.toString();
        } catch (IOException | GeneralSecurityException error) {
            throw new IllegalStateException("the authority's certificate cannot be read", error);
        }
    }

    private KafkaProducer<byte[], byte[]> producer(String... more) {
        Properties config = config();
        config.put("enable.idempotence", "false");
        config.put("max.block.ms", Integer.toString(TIMEOUT_MS));
        config.put("request.timeout.ms", "10000");
        config.put("delivery.timeout.ms", Integer.toString(TIMEOUT_MS));
        config.put("max.request.size", Integer.toString(LARGE_MAX));
        for (int at = 0; at < more.length; at += 2) {
            config.put(more[at], more[at + 1]);
        }
        ByteArraySerializer bytes = new ByteArraySerializer();
        return new KafkaProducer<>(config, bytes, bytes);
    }

    private KafkaConsumer<byte[], byte[]> consumer(String... more) {
        Properties config = config(more);
        config.putIfAbsent("auto.offset.reset", "none");
        config.putIfAbsent("enable.auto.commit", "false");
        config.put("default.api.timeout.ms", Integer.toString(TIMEOUT_MS));
        config.put("max.partition.fetch.bytes", Integer.toString(LARGE_MAX));
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        return new KafkaConsumer<>(config, bytes, bytes);
    }

    /** A record without topic: key, value, headers. */
    private static ProducerRecord<byte[], byte[]> record(String key, String value, Header... headers) {
        return new ProducerRecord<>("none", 0, bytes(key), bytes(value), Arrays.asList(headers));
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "null" : new String(bytes, StandardCharsets.UTF_8);
    }

    private static List<ProducerRecord<byte[], byte[]>> values(String cell, int count) {
        List<ProducerRecord<byte[], byte[]>> found = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            found.add(record(null, cell + "-" + number));
        }
        return found;
    }

    private String send(String suffix, List<ProducerRecord<byte[], byte[]>> records, String... more)
            throws Exception {
        String topic = options.get("name") + "." + suffix;
        KafkaProducer<byte[], byte[]> producer = producer(more);
        try {
            List<Future<?>> sent = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : records) {
                sent.add(producer.send(new ProducerRecord<>(
                        topic, 0, record.key(), record.value(), record.headers())));
            }
            for (Future<?> each : sent) {
                each.get(TIMEOUT_MS + 5_000, TimeUnit.MILLISECONDS);
            }
        } finally {
            producer.close();
        }
        return "";
    }

    /** Each record waits for the answer to the one before. The one of that number must be given up. */
    private String oneByOne(List<ProducerRecord<byte[], byte[]>> records, int givenUp, String... more)
            throws Exception {
        List<String> config = new ArrayList<>(Arrays.asList(
                "bootstrap.servers", options.get("lossy"), "enable.idempotence", "true"));
        config.addAll(Arrays.asList(more));
        KafkaProducer<byte[], byte[]> producer = producer(config.toArray(new String[0]));
        try {
            for (int number = 0; number < records.size(); number++) {
                Future<?> sent = producer.send(new ProducerRecord<>(
                        options.get("name") + ".lost", 0, null, records.get(number).value()));
                try {
                    sent.get(TIMEOUT_MS + 5_000, TimeUnit.MILLISECONDS);
                    if (number == givenUp) {
                        throw new IllegalStateException("it was not given up");
                    }
                } catch (ExecutionException error) {
                    if (number != givenUp || !(error.getCause() instanceof TimeoutException)) {
                        throw error;
                    }
                }
            }
        } finally {
            producer.close();
        }
        return "";
    }

    private static List<ConsumerRecord<byte[], byte[]>> poll(
            KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TIMEOUT_MS);
        while (found.size() < count && System.nanoTime() < deadline) {
            consumer.poll(Duration.ofMillis(200)).forEach(found::add);
        }
        return found.subList(0, Math.min(count, found.size()));
    }

    private static String seen(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(r -> r.offset() + ":" + text(r.value()))
                .collect(Collectors.joining(" "));
    }

    private static String version() throws IOException {
        Properties found = new Properties();
        try (InputStream file = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            found.load(file);
        }
        return found.getProperty("version");
    }

    private String list() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            return GIVEN + ":" + consumer.listTopics().get(GIVEN).size();
        }
    }

    private String read(String cell) {
        TopicPartition place = new TopicPartition(GIVEN, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("max.poll.records", "3")) {
            consumer.assign(Collections.singleton(place));
            switch (cell) {
                case "earliest":
                    consumer.seekToBeginning(Collections.singleton(place));
                    return seen(poll(consumer, 3));
                case "offset":
                    consumer.seek(place, 40);
                    return seen(poll(consumer, 3));
                case "timestamp":
                    consumer.seek(place, consumer
                            .offsetsForTimes(Collections.singletonMap(place, TIME_MS))
                            .get(place).offset());
                    return seen(poll(consumer, 3));
                default:
                    consumer.seek(place, 10);
                    String first = seen(poll(consumer, 3));
                    consumer.seek(place, 90);
                    return first + " " + seen(poll(consumer, 3));
            }
        }
    }

    private String follow(String cell, int count) throws Exception {
        TopicPartition place = new TopicPartition(options.get("name") + ".tail", 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(Collections.singleton(place));
            consumer.seekToEnd(Collections.singleton(place));
            consumer.position(place);
            List<ConsumerRecord<byte[], byte[]>> found = new ArrayList<>();
            for (ProducerRecord<byte[], byte[]> record : values(cell, count)) {
                send("tail", Collections.singletonList(record));
                found.addAll(poll(consumer, 1));
            }
            return found.stream().map(r -> text(r.value())).collect(Collectors.joining(" "));
        }
    }

    private List<ConsumerRecord<byte[], byte[]>> forms(long offset, int count) {
        TopicPartition place = new TopicPartition(FORMS, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(Collections.singleton(place));
            consumer.seek(place, offset);
            return poll(consumer, count);
        }
    }

    private String headers() throws Exception {
        send("made", Collections.singletonList(record(null, "headers",
                new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")),
                new RecordHeader("b", (byte[]) null), new RecordHeader("c", bytes("")))));
        Iterable<Header> found = forms(0, 1).get(0).headers();
        return StreamSupport.stream(found.spliterator(), false)
                .map(header -> header.key() + "=" + text(header.value()))
                .collect(Collectors.joining(" "));
    }

    private String nulls() throws Exception {
        send("made", Arrays.asList(record("null-value", null), record("empty-value", ""),
                record(null, "null-key"), record("", "empty-key")));
        return forms(1, 4).stream().map(r -> text(r.key()) + "=" + text(r.value()))
                .collect(Collectors.joining(" "));
    }

    private String sized(int size) throws Exception {
        send("large", Collections.singletonList(record(null, "x".repeat(size))));
        TopicPartition place = new TopicPartition(options.get("name") + ".large", 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(Collections.singleton(place));
            consumer.seek(place, consumer.endOffsets(Collections.singleton(place)).get(place) - 1);
            return Integer.toString(poll(consumer, 1).get(0).value().length);
        }
    }

    private String ends() {
        TopicPartition place = new TopicPartition(GIVEN, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            return consumer.beginningOffsets(Collections.singleton(place)).get(place) + " "
                    + consumer.endOffsets(Collections.singleton(place)).get(place);
        }
    }

    private String group() {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", options.get("name"))) {
            consumer.subscribe(Collections.singleton(GIVEN));
            poll(consumer, 1);
        } catch (KafkaException error) {
            return told(error);
        }
        throw new IllegalStateException("it was not refused");
    }

    private String transaction() {
        KafkaProducer<byte[], byte[]> producer =
                producer("transactional.id", options.get("name"), "enable.idempotence", "true");
        try {
            producer.initTransactions();
        } catch (KafkaException error) {
            return told(error);
        } finally {
            producer.close();
        }
        throw new IllegalStateException("it was not refused");
    }

    private String groupAssign() {
        TopicPartition place = new TopicPartition(GIVEN, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("group.id", options.get("name"))) {
            consumer.assign(Collections.singleton(place));
            consumer.seek(place, 0);
            int first = poll(consumer, ENOUGH).size();
            String said = "no error";
            try {
                // Only what stores or asks for offsets of the group meets the refusal.
                consumer.commitSync(Duration.ofMillis(TIMEOUT_MS));
            } catch (KafkaException error) {
                said = told(error);
            }
            consumer.seek(place, 0);
            return first + " then " + said + " then " + poll(consumer, ENOUGH).size();
        }
    }
}
