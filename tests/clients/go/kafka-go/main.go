// The cells of the client matrix with kafka-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"felix/clients/cells"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
)

func main() {
	cells.Main(run)
}

func run(options cells.Options, cell string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), cells.Timeout)
	defer cancel()
	made := writer(options, "made")
	switch cell {
	case "version":
		return cells.Version("github.com/segmentio/kafka-go"), nil
	case "list":
		return list(ctx, options)
	case "acks-0", "acks-1", "acks-all":
		made.RequiredAcks = map[string]kafka.RequiredAcks{
			"acks-0": kafka.RequireNone, "acks-1": kafka.RequireOne, "acks-all": kafka.RequireAll,
		}[cell]
		return "", send(ctx, made, cells.Values(cell, 1))
	case "none", "gzip", "snappy", "lz4", "zstd":
		made.Compression = map[string]kafka.Compression{
			"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
		}[cell]
		return "", send(ctx, made, cells.Values(cell, 20))
	case "idempotent", "lost-idempotent", "timed-out", "forgotten":
		return "", errors.New("kafka-go has no idempotent producer")
	case "earliest":
		return given(ctx, options, kafka.FirstOffset)
	case "offset":
		return given(ctx, options, 40)
	case "timestamp":
		reader := reader(options, cells.Given)
		defer reader.Close()
		if err := reader.SetOffsetAt(ctx, time.UnixMilli(cells.TimeMs)); err != nil {
			return "", err
		}
		found, err := read(ctx, reader, 3)
		return seen(found), err
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
		start, end, err := ends(ctx, options, cells.Given)
		return fmt.Sprint(start, " ", end), err
	case "group":
		return group(ctx, options)
	case "transaction":
		return transaction(ctx, options)
	case "group-assign":
		return "", errors.New(kafkaGroupLimit(options))
	case "lost":
		options["bootstrap"] = options["lossy"]
		return "", send(ctx, writer(options, "lost"), cells.Values(cell, 10))
	}
	return "", errors.New("its program here knows no such cell")
}

func mechanism(options cells.Options) sasl.Mechanism {
	if options["user"] == "" {
		return nil
	}
	return plain.Mechanism{Username: options["user"], Password: options["password"]}
}

func transport(options cells.Options) *kafka.Transport {
	return &kafka.Transport{ClientID: options["name"], TLS: options.TLS(), SASL: mechanism(options)}
}

func dialer(options cells.Options) *kafka.Dialer {
	return &kafka.Dialer{
		ClientID: options["name"], Timeout: cells.Timeout, DualStack: true,
		TLS: options.TLS(), SASLMechanism: mechanism(options),
	}
}

func client(options cells.Options) *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(options["bootstrap"]), Transport: transport(options)}
}

// first is a balancer that knows one partition only.
func first(kafka.Message, ...int) int {
	return 0
}

func writer(options cells.Options, suffix string) *kafka.Writer {
	return &kafka.Writer{
		Addr: kafka.TCP(options["bootstrap"]), Topic: options.Topic(suffix),
		Balancer: kafka.BalancerFunc(first), RequiredAcks: kafka.RequireAll,
		BatchTimeout: 50 * time.Millisecond, BatchBytes: cells.LargeMax,
		Transport: transport(options),
	}
}

func send(ctx context.Context, writer *kafka.Writer, pairs []cells.Pair) error {
	var messages []kafka.Message
	for _, pair := range pairs {
		messages = append(messages, kafka.Message{Key: pair.Key, Value: pair.Value})
	}
	return write(ctx, writer, messages)
}

func write(ctx context.Context, writer *kafka.Writer, messages []kafka.Message) error {
	defer writer.Close()
	err := writer.WriteMessages(ctx, messages...)
	var all kafka.WriteErrors
	if errors.As(err, &all) {
		for _, each := range all {
			if each != nil {
				return each
			}
		}
	}
	return err
}

func reader(options cells.Options, topic string) *kafka.Reader {
	return kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{options["bootstrap"]}, Topic: topic, Partition: 0, Dialer: dialer(options),
		MaxBytes: cells.LargeMax, MaxWait: 500 * time.Millisecond,
	})
}

func read(ctx context.Context, reader *kafka.Reader, count int) ([]kafka.Message, error) {
	var found []kafka.Message
	for len(found) < count {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return found, err
		}
		found = append(found, message)
	}
	return found, nil
}

func readFrom(ctx context.Context, options cells.Options, topic string, from int64, count int) ([]kafka.Message, error) {
	reader := reader(options, topic)
	defer reader.Close()
	if err := reader.SetOffset(from); err != nil {
		return nil, err
	}
	return read(ctx, reader, count)
}

func seen(messages []kafka.Message) string {
	var told []string
	for _, message := range messages {
		told = append(told, cells.Seen(message.Offset, message.Value))
	}
	return strings.Join(told, " ")
}

func given(ctx context.Context, options cells.Options, from int64) (string, error) {
	found, err := readFrom(ctx, options, cells.Given, from, 3)
	return seen(found), err
}

func list(ctx context.Context, options cells.Options) (string, error) {
	answer, err := client(options).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return "", err
	}
	for _, topic := range answer.Topics {
		if topic.Name == cells.Given {
			return fmt.Sprintf("%s:%d", topic.Name, len(topic.Partitions)), nil
		}
	}
	return "", errors.New("it is not listed")
}

func follow(ctx context.Context, options cells.Options, cell string, count int) (string, error) {
	topic := options.Topic("tail")
	// Where the end is it is asked first: the reader looks for it in the background.
	_, end, err := ends(ctx, options, topic)
	if err != nil {
		return "", err
	}
	reader := reader(options, topic)
	defer reader.Close()
	if err := reader.SetOffset(end); err != nil {
		return "", err
	}
	var told []string
	for _, pair := range cells.Values(cell, count) {
		if err := send(ctx, writer(options, "tail"), []cells.Pair{pair}); err != nil {
			return "", err
		}
		found, err := read(ctx, reader, 1)
		if err != nil {
			return "", err
		}
		told = append(told, string(found[0].Value))
	}
	return strings.Join(told, " "), nil
}

func headers(ctx context.Context, options cells.Options) (string, error) {
	message := kafka.Message{Value: []byte("headers")}
	for _, header := range cells.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
	if err := write(ctx, writer(options, "made"), []kafka.Message{message}); err != nil {
		return "", err
	}
	found, err := readFrom(ctx, options, cells.Forms, 0, 1)
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
	if err := send(ctx, writer(options, "made"), cells.Nulls); err != nil {
		return "", err
	}
	found, err := readFrom(ctx, options, cells.Forms, 1, 4)
	var told []string
	for _, message := range found {
		told = append(told, cells.Text(message.Key)+"="+cells.Text(message.Value))
	}
	return strings.Join(told, " "), err
}

func sized(ctx context.Context, options cells.Options, size int) (string, error) {
	if err := send(ctx, writer(options, "large"), cells.Sized(size)); err != nil {
		return "", err
	}
	topic := options.Topic("large")
	_, end, err := ends(ctx, options, topic)
	if err != nil {
		return "", err
	}
	found, err := readFrom(ctx, options, topic, end-1, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(len(found[0].Value)), nil
}

func seek(ctx context.Context, options cells.Options) (string, error) {
	reader := reader(options, cells.Given)
	defer reader.Close()
	var told []string
	for _, from := range []int64{10, 90} {
		if err := reader.SetOffset(from); err != nil {
			return "", err
		}
		found, err := read(ctx, reader, 3)
		if err != nil {
			return "", err
		}
		told = append(told, seen(found))
	}
	return strings.Join(told, " "), nil
}

func ends(ctx context.Context, options cells.Options, topic string) (int64, int64, error) {
	wanted := []kafka.OffsetRequest{kafka.FirstOffsetOf(0), kafka.LastOffsetOf(0)}
	answer, err := client(options).ListOffsets(ctx, &kafka.ListOffsetsRequest{
		Topics: map[string][]kafka.OffsetRequest{topic: wanted},
	})
	if err != nil {
		return 0, 0, err
	}
	found := answer.Topics[topic][0]
	return found.FirstOffset, found.LastOffset, found.Error
}

func group(ctx context.Context, options cells.Options) (string, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{options["bootstrap"]}, Topic: cells.Given, GroupID: options["name"],
		Dialer: dialer(options),
	})
	defer reader.Close()
	if _, err := reader.ReadMessage(ctx); err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", errors.New("it was not refused")
}

func transaction(ctx context.Context, options cells.Options) (string, error) {
	answer, err := client(options).InitProducerID(ctx, &kafka.InitProducerIDRequest{
		Addr: kafka.TCP(options["bootstrap"]), TransactionalID: options["name"], TransactionTimeoutMs: 60_000,
	})
	if err == nil {
		err = answer.Error
	}
	if err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", errors.New("it was not refused")
}

// kafkaGroupLimit is what it says to a reader with a group and a partition.
func kafkaGroupLimit(options cells.Options) string {
	config := kafka.ReaderConfig{
		Brokers: []string{options["bootstrap"]}, Topic: cells.Given, Partition: 1, GroupID: options["name"],
	}
	err := config.Validate()
	if err == nil {
		return "a group and a partition were taken together"
	}
	return "kafka-go takes a group or a partition, not both: " + err.Error()
}
