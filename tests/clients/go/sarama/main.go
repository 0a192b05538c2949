// The cells of the client matrix with sarama.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"felix/clients/cells"

	"github.com/IBM/sarama"
)

// No record has this number.
const none = -1

func main() {
	cells.Main(run)
}

func run(options cells.Options, cell string) (string, error) {
	made := options.Topic("made")
	config := config(options)
	switch cell {
	case "version":
		return cells.Version("github.com/IBM/sarama"), nil
	case "list":
		return list(options)
	case "acks-0", "acks-1", "acks-all":
		config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
			"acks-0": sarama.NoResponse, "acks-1": sarama.WaitForLocal, "acks-all": sarama.WaitForAll,
		}[cell]
		return "", send(options["bootstrap"], config, messages(made, cells.Values(cell, 1)))
	case "none", "gzip", "snappy", "lz4", "zstd":
		config.Producer.Compression = map[string]sarama.CompressionCodec{
			"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
			"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
		}[cell]
		return "", send(options["bootstrap"], config, messages(made, cells.Values(cell, 20)))
	case "idempotent":
		config = idempotent(config)
		return "", send(options["bootstrap"], config, messages(made, cells.Values(cell, 20)))
	case "earliest":
		return given(options, sarama.OffsetOldest)
	case "offset":
		return given(options, 40)
	case "timestamp":
		return timestamp(options)
	case "latest":
		return follow(options, cell, 1)
	case "tail":
		return follow(options, cell, 3)
	case "headers":
		return headers(options)
	case "nulls":
		return nulls(options)
	case "large":
		return sized(options, cells.Large)
	case "huge":
		return sized(options, cells.Huge)
	case "seek":
		return seek(options)
	case "ends":
		return ends(options)
	case "group":
		return group(options)
	case "transaction":
		return transaction(options)
	case "group-assign":
		return groupAssign(options)
	case "lost":
		return "", send(options["lossy"], config, messages(options.Topic("lost"), cells.Values(cell, 10)))
	case "lost-idempotent":
		config = idempotent(config)
		return "", send(options["lossy"], config, messages(options.Topic("lost"), cells.Values(cell, 10)))
	case "timed-out":
		config = idempotent(config)
		// It gives a record up after so many requests.
		config.Net.ReadTimeout = time.Second
		config.Producer.Retry.Max = 3
		return "", oneByOne(options["lossy"], config, messages(options.Topic("lost"), cells.Values(cell, 3)), 1)
	case "forgotten":
		return "", oneByOne(options["lossy"], idempotent(config), messages(options.Topic("lost"), cells.Values(cell, 3)), none)
	}
	return "", errors.New("its program here knows no such cell")
}

func config(options cells.Options) *sarama.Config {
	config := sarama.NewConfig()
	config.ClientID = options["name"]
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Return.Successes = true
	config.Producer.MaxMessageBytes = cells.LargeMax
	config.Consumer.Return.Errors = true
	config.Producer.Flush.Frequency = 50 * time.Millisecond
	if tls := options.TLS(); tls != nil {
		config.Net.TLS.Enable = true
		config.Net.TLS.Config = tls
	}
	if user := options["user"]; user != "" {
		config.Net.SASL.Enable = true
		config.Net.SASL.Mechanism = sarama.SASLTypePlaintext
		config.Net.SASL.User = user
		config.Net.SASL.Password = options["password"]
	}
	return config
}

func idempotent(config *sarama.Config) *sarama.Config {
	config.Producer.Idempotent = true
	// It insists.
	config.Net.MaxOpenRequests = 1
	return config
}

// encoder keeps a null apart from nothing in it.
func encoder(bytes []byte) sarama.Encoder {
	if bytes == nil {
		return nil
	}
	return sarama.ByteEncoder(bytes)
}

func messages(topic string, pairs []cells.Pair) []*sarama.ProducerMessage {
	var found []*sarama.ProducerMessage
	for _, pair := range pairs {
		message := &sarama.ProducerMessage{Topic: topic, Key: encoder(pair.Key), Value: encoder(pair.Value)}
		found = append(found, message)
	}
	return found
}

func send(bootstrap string, config *sarama.Config, messages []*sarama.ProducerMessage) error {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	err = producer.SendMessages(messages)
	var all sarama.ProducerErrors
	if errors.As(err, &all) {
		return all[0].Err
	}
	return err
}

// oneByOne has each record wait for the answer to the one before. The one of that number must be given
// up.
func oneByOne(bootstrap string, config *sarama.Config, messages []*sarama.ProducerMessage, givenUp int) error {
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for number, message := range messages {
		_, _, err := producer.SendMessage(message)
		if number == givenUp && err == nil {
			return errors.New("it was not given up")
		}
		if number != givenUp && err != nil {
			return err
		}
	}
	return nil
}

// reader of one partition, and what ends it.
func reader(options cells.Options, topic string, from int64) (sarama.PartitionConsumer, func(), error) {
	consumer, err := sarama.NewConsumer([]string{options["bootstrap"]}, config(options))
	if err != nil {
		return nil, nil, err
	}
	partition, err := consumer.ConsumePartition(topic, 0, from)
	if err != nil {
		consumer.Close()
		return nil, nil, err
	}
	return partition, func() { partition.Close(); consumer.Close() }, nil
}

func read(partition sarama.PartitionConsumer, count int) ([]*sarama.ConsumerMessage, error) {
	var found []*sarama.ConsumerMessage
	late := time.After(cells.Timeout)
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case err := <-partition.Errors():
			return found, err
		case <-late:
			return found, fmt.Errorf("%d records of %d", len(found), count)
		}
	}
	return found, nil
}

func seen(messages []*sarama.ConsumerMessage) string {
	var told []string
	for _, message := range messages {
		told = append(told, cells.Seen(message.Offset, message.Value))
	}
	return strings.Join(told, " ")
}

func readFrom(options cells.Options, topic string, from int64, count int) ([]*sarama.ConsumerMessage, error) {
	partition, end, err := reader(options, topic, from)
	if err != nil {
		return nil, err
	}
	defer end()
	return read(partition, count)
}

func given(options cells.Options, from int64) (string, error) {
	found, err := readFrom(options, cells.Given, from, 3)
	return seen(found), err
}

func client(options cells.Options) (sarama.Client, error) {
	return sarama.NewClient([]string{options["bootstrap"]}, config(options))
}

func list(options cells.Options) (string, error) {
	client, err := client(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	topics, err := client.Topics()
	if err != nil {
		return "", err
	}
	for _, topic := range topics {
		if topic == cells.Given {
			partitions, err := client.Partitions(topic)
			return fmt.Sprintf("%s:%d", topic, len(partitions)), err
		}
	}
	return "", errors.New("it is not listed")
}

func timestamp(options cells.Options) (string, error) {
	client, err := client(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	offset, err := client.GetOffset(cells.Given, 0, cells.TimeMs)
	if err != nil {
		return "", err
	}
	return given(options, offset)
}

func follow(options cells.Options, cell string, count int) (string, error) {
	partition, end, err := reader(options, options.Topic("tail"), sarama.OffsetNewest)
	if err != nil {
		return "", err
	}
	defer end()
	var told []string
	for _, pair := range cells.Values(cell, count) {
		sent := messages(options.Topic("tail"), []cells.Pair{pair})
		if err := send(options["bootstrap"], config(options), sent); err != nil {
			return "", err
		}
		found, err := read(partition, 1)
		if err != nil {
			return "", err
		}
		told = append(told, string(found[0].Value))
	}
	return strings.Join(told, " "), nil
}

func headers(options cells.Options) (string, error) {
	message := messages(options.Topic("made"), []cells.Pair{{Key: nil, Value: []byte("headers")}})
	for _, header := range cells.Headers {
		named := sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value}
		message[0].Headers = append(message[0].Headers, named)
	}
	if err := send(options["bootstrap"], config(options), message); err != nil {
		return "", err
	}
	found, err := readFrom(options, cells.Forms, 0, 1)
	if err != nil {
		return "", err
	}
	var told []string
	for _, header := range found[0].Headers {
		told = append(told, string(header.Key)+"="+cells.Text(header.Value))
	}
	return strings.Join(told, " "), nil
}

func nulls(options cells.Options) (string, error) {
	sent := messages(options.Topic("made"), cells.Nulls)
	if err := send(options["bootstrap"], config(options), sent); err != nil {
		return "", err
	}
	found, err := readFrom(options, cells.Forms, 1, 4)
	var told []string
	for _, message := range found {
		told = append(told, cells.Text(message.Key)+"="+cells.Text(message.Value))
	}
	return strings.Join(told, " "), err
}

func sized(options cells.Options, size int) (string, error) {
	topic := options.Topic("large")
	if err := send(options["bootstrap"], config(options), messages(topic, cells.Sized(size))); err != nil {
		return "", err
	}
	client, err := client(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	end, err := client.GetOffset(topic, 0, sarama.OffsetNewest)
	if err != nil {
		return "", err
	}
	found, err := readFrom(options, topic, end-1, 1)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(len(found[0].Value)), nil
}

// seek is another consumer of the partition: one reads on from where it began.
func seek(options cells.Options) (string, error) {
	first, err := given(options, 10)
	if err != nil {
		return "", err
	}
	second, err := given(options, 90)
	return first + " " + second, err
}

func ends(options cells.Options) (string, error) {
	client, err := client(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	start, err := client.GetOffset(cells.Given, 0, sarama.OffsetOldest)
	if err != nil {
		return "", err
	}
	end, err := client.GetOffset(cells.Given, 0, sarama.OffsetNewest)
	return fmt.Sprint(start, " ", end), err
}

type ignoring struct{}

func (ignoring) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (ignoring) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (ignoring) ConsumeClaim(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error {
	return nil
}

func group(options cells.Options) (string, error) {
	group, err := sarama.NewConsumerGroup([]string{options["bootstrap"]}, options["name"], config(options))
	if err != nil {
		return "", err
	}
	defer group.Close()
	ctx, cancel := context.WithTimeout(context.Background(), cells.Timeout)
	defer cancel()
	if err := group.Consume(ctx, []string{cells.Given}, ignoring{}); err != nil && ctx.Err() == nil {
		return err.Error(), nil
	}
	return "", errors.New("it was not refused")
}

func transaction(options cells.Options) (string, error) {
	config := idempotent(config(options))
	config.Producer.Transaction.ID = options["name"]
	producer, err := sarama.NewSyncProducer([]string{options["bootstrap"]}, config)
	if err != nil {
		return err.Error(), nil
	}
	producer.Close()
	return "", errors.New("it was not refused")
}

func groupAssign(options cells.Options) (string, error) {
	client, err := client(options)
	if err != nil {
		return "", err
	}
	defer client.Close()
	first, err := readFrom(options, cells.Given, 0, cells.Enough)
	if err != nil {
		return "", err
	}
	// What a consumer of partitions stores offsets with.
	said := "no error"
	manager, err := sarama.NewOffsetManagerFromClient(options["name"], client)
	if err == nil {
		_, err = manager.ManagePartition(cells.Given, 0)
		manager.Close()
	}
	if err != nil {
		said = err.Error()
	}
	second, err := readFrom(options, cells.Given, 0, cells.Enough)
	return fmt.Sprintf("%d then %s then %d", len(first), said, len(second)), err
}
