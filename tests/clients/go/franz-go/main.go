// The cells of the client matrix with franz-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"felix/clients/cells"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

// No record has this number.
const none = -1

func main() {
	cells.Main(run)
}

func run(options cells.Options, cell string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cells.Timeout)
	defer cancel()
	made := options.Topic("made")
	switch cell {
	case "version":
		return cells.Version("github.com/twmb/franz-go"), nil
	case "list":
		return list(ctx, options)
	case "acks-0", "acks-1", "acks-all":
		acks := map[string]kgo.Acks{
			"acks-0": kgo.NoAck(), "acks-1": kgo.LeaderAck(), "acks-all": kgo.AllISRAcks(),
		}[cell]
		return "", send(ctx, options, made, cells.Values(cell, 1), kgo.RequiredAcks(acks))
	case "none", "gzip", "snappy", "lz4", "zstd":
		codec := map[string]kgo.CompressionCodec{
			"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
			"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
		}[cell]
		return "", send(ctx, options, made, cells.Values(cell, 20), kgo.ProducerBatchCompression(codec))
	case "idempotent":
		return "", sendIdempotent(ctx, options, made, cells.Values(cell, 20))
	case "earliest":
		return given(ctx, options, kgo.NewOffset().AtStart())
	case "offset":
		return given(ctx, options, kgo.NewOffset().At(40))
	case "timestamp":
		return given(ctx, options, kgo.NewOffset().AfterMilli(cells.TimeMs))
	case "latest":
		return follow(ctx, options, cell, 1)
	case "tail":
		return follow(ctx, options, cell, 3)
	case "headers":
		return headers(ctx, options)
	case "nulls":
		return nulls(ctx, options)
	case "large":
		return sized(ctx, options, cells.Large)
	case "huge":
		return sized(ctx, options, cells.Huge)
	case "seek":
		return seek(ctx, options)
	case "ends":
		return ends(ctx, options)
	case "group":
		return group(ctx, options)
	case "transaction":
		return transaction(ctx, options)
	case "group-assign":
		return groupAssign(ctx, options)
	case "lost":
		lossy := kgo.SeedBrokers(options["lossy"])
		return "", send(ctx, options, options.Topic("lost"), cells.Values(cell, 10), lossy)
	case "lost-idempotent":
		lossy := kgo.SeedBrokers(options["lossy"])
		return "", sendIdempotent(ctx, options, options.Topic("lost"), cells.Values(cell, 10), lossy)
	case "timed-out":
		return "", oneByOne(ctx, options, cells.Values(cell, 3), 1,
			kgo.ProduceRequestTimeout(time.Second/2), kgo.RequestTimeoutOverhead(time.Second/2),
			kgo.RecordDeliveryTimeout(4*time.Second), kgo.AllowIdempotentProduceCancellation(),
			kgo.ProducerBatchCompression(kgo.NoCompression()))
	case "forgotten":
		return "", oneByOne(ctx, options, cells.Values(cell, 3), none)
	}
	return "", errors.New("its program here knows no such cell")
}

func client(options cells.Options, more ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(config(options, more...)...)
	if err != nil {
		panic(err)
	}
	return made
}

func config(options cells.Options, more ...kgo.Opt) []kgo.Opt {
	config := []kgo.Opt{
		kgo.SeedBrokers(options["bootstrap"]), kgo.ClientID(options["name"]),
		kgo.ProducerBatchMaxBytes(cells.LargeMax), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}
	if tls := options.TLS(); tls != nil {
		config = append(config, kgo.DialTLSConfig(tls))
	}
	if user := options["user"]; user != "" {
		auth := plain.Auth{User: user, Pass: options["password"]}
		config = append(config, kgo.SASL(auth.AsMechanism()))
	}
	return append(config, more...)
}

// send produces without idempotence, which franz-go otherwise begins with.
func send(ctx context.Context, options cells.Options, topic string, pairs []cells.Pair, more ...kgo.Opt) error {
	more = append(more, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	return sendIdempotent(ctx, options, topic, pairs, more...)
}

func sendIdempotent(ctx context.Context, options cells.Options, topic string, pairs []cells.Pair, more ...kgo.Opt) error {
	producer := client(options, more...)
	defer producer.Close()
	var records []*kgo.Record
	for _, pair := range pairs {
		records = append(records, &kgo.Record{Topic: topic, Key: pair.Key, Value: pair.Value})
	}
	return producer.ProduceSync(ctx, records...).FirstErr()
}

// oneByOne has each record wait for the answer to the one before. The one of that number must be given
// up.
func oneByOne(ctx context.Context, options cells.Options, pairs []cells.Pair, givenUp int, more ...kgo.Opt) error {
	producer := client(options, append(more, kgo.SeedBrokers(options["lossy"]))...)
	defer producer.Close()
	for number, pair := range pairs {
		record := &kgo.Record{Topic: options.Topic("lost"), Value: pair.Value}
		err := producer.ProduceSync(ctx, record).FirstErr()
		if number == givenUp && err == nil {
			return errors.New("it was not given up")
		}
		if err != nil && (number != givenUp || !errors.Is(err, kgo.ErrRecordTimeout)) {
			return err
		}
	}
	return nil
}

func reader(options cells.Options, topic string, from kgo.Offset, more ...kgo.Opt) *kgo.Client {
	place := map[string]map[int32]kgo.Offset{topic: {0: from}}
	return client(options, append(more, kgo.ConsumePartitions(place))...)
}

func read(ctx context.Context, consumer *kgo.Client, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < count {
		fetches := consumer.PollRecords(ctx, count-len(found))
		if err := fetches.Err(); err != nil {
			return found, err
		}
		found = append(found, fetches.Records()...)
	}
	return found, nil
}

func seen(records []*kgo.Record) string {
	var told []string
	for _, record := range records {
		told = append(told, cells.Seen(record.Offset, record.Value))
	}
	return strings.Join(told, " ")
}

func given(ctx context.Context, options cells.Options, from kgo.Offset) (string, error) {
	consumer := reader(options, cells.Given, from)
	defer consumer.Close()
	found, err := read(ctx, consumer, 3)
	return seen(found), err
}

func list(ctx context.Context, options cells.Options) (string, error) {
	admin := kadm.NewClient(client(options))
	defer admin.Close()
	topics, err := admin.ListTopics(ctx)
	return fmt.Sprintf("%s:%d", cells.Given, len(topics[cells.Given].Partitions)), err
}

func follow(ctx context.Context, options cells.Options, cell string, count int) (string, error) {
	topic := options.Topic("tail")
	// Where the end is it is asked first: the consumer looks for it only when it begins to poll.
	admin := kadm.NewClient(client(options))
	defer admin.Close()
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return "", err
	}
	end, _ := ends.Lookup(topic, 0)
	consumer := reader(options, topic, kgo.NewOffset().At(end.Offset))
	defer consumer.Close()
	var told []string
	for _, pair := range cells.Values(cell, count) {
		if err := send(ctx, options, topic, []cells.Pair{pair}); err != nil {
			return "", err
		}
		found, err := read(ctx, consumer, 1)
		if err != nil {
			return "", err
		}
		told = append(told, string(found[0].Value))
	}
	return strings.Join(told, " "), nil
}

func headers(ctx context.Context, options cells.Options) (string, error) {
	record := &kgo.Record{Topic: options.Topic("made"), Value: []byte("headers")}
	for _, header := range cells.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	producer := client(options, kgo.DisableIdempotentWrite())
	defer producer.Close()
	if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil {
		return "", err
	}
	consumer := reader(options, cells.Forms, kgo.NewOffset().At(0))
	defer consumer.Close()
	found, err := read(ctx, consumer, 1)
	if err != nil {
		return "", err
	}
	var told []string
	for _, header := range found[0].Headers {
		told = append(told, header.Key+"="+cells.Text(header.Value))
	}
	return strings.Join(told, " "), nil
}

func nulls(ctx context.Context, options cells.Options) (string, error) {
	if err := send(ctx, options, options.Topic("made"), cells.Nulls); err != nil {
		return "", err
	}
	consumer := reader(options, cells.Forms, kgo.NewOffset().At(1))
	defer consumer.Close()
	found, err := read(ctx, consumer, 4)
	var told []string
	for _, record := range found {
		told = append(told, cells.Text(record.Key)+"="+cells.Text(record.Value))
	}
	return strings.Join(told, " "), err
}

func sized(ctx context.Context, options cells.Options, size int) (string, error) {
	topic := options.Topic("large")
	if err := send(ctx, options, topic, cells.Sized(size), kgo.ProducerBatchCompression(kgo.NoCompression())); err != nil {
		return "", err
	}
	consumer := reader(options, topic, kgo.NewOffset().AtEnd().Relative(-1))
	defer consumer.Close()
	found, err := read(ctx, consumer, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(len(found[0].Value)), nil
}

func seek(ctx context.Context, options cells.Options) (string, error) {
	consumer := reader(options, cells.Given, kgo.NewOffset().At(10))
	defer consumer.Close()
	first, err := read(ctx, consumer, 3)
	if err != nil {
		return "", err
	}
	to := map[string]map[int32]kgo.EpochOffset{cells.Given: {0: {Epoch: -1, Offset: 90}}}
	consumer.SetOffsets(to)
	second, err := read(ctx, consumer, 3)
	return seen(append(first, second...)), err
}

func ends(ctx context.Context, options cells.Options) (string, error) {
	admin := kadm.NewClient(client(options))
	defer admin.Close()
	starts, err := admin.ListStartOffsets(ctx, cells.Given)
	if err != nil {
		return "", err
	}
	ends, err := admin.ListEndOffsets(ctx, cells.Given)
	start, _ := starts.Lookup(cells.Given, 0)
	end, _ := ends.Lookup(cells.Given, 0)
	return fmt.Sprint(start.Offset, end.Offset), err
}

func group(ctx context.Context, options cells.Options) (string, error) {
	consumer := client(options, kgo.ConsumerGroup(options["name"]), kgo.ConsumeTopics(cells.Given))
	defer consumer.CloseAllowingRebalance()
	if err := consumer.PollFetches(ctx).Err(); err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", errors.New("it was not refused")
}

func transaction(ctx context.Context, options cells.Options) (string, error) {
	producer := client(options, kgo.TransactionalID(options["name"]))
	defer producer.Close()
	if err := producer.BeginTransaction(); err != nil {
		return err.Error(), nil
	}
	record := &kgo.Record{Topic: options.Topic("made"), Value: []byte("transaction")}
	if err := producer.ProduceSync(ctx, record).FirstErr(); err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", errors.New("it was not refused")
}

func groupAssign(_ context.Context, options cells.Options) (string, error) {
	place := map[string]map[int32]kgo.Offset{cells.Given: {0: kgo.NewOffset().AtStart()}}
	both := config(options, kgo.ConsumerGroup(options["name"]), kgo.ConsumePartitions(place))
	_, err := kgo.NewClient(both...)
	if err == nil {
		return "", errors.New("a group and partitions were taken together")
	}
	return "", fmt.Errorf("franz-go takes a group or partitions, not both: %w", err)
}
