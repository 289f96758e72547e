// Tries the features of sarama: sarama BOOTSTRAP PREFIX
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const wait = 60 * time.Second

var (
	brokers []string
	prefix  string
	values  []string
)

func main() {
	brokers, prefix = strings.Split(os.Args[1], ","), os.Args[2]
	for number := 0; number < 10; number++ {
		values = append(values, strings.Repeat(fmt.Sprintf("value %d ", number), 20))
	}
	features := []struct {
		name    string
		attempt func() error
	}{
		{"records", records},
		{"gzip", codec("gzip", sarama.CompressionGZIP)},
		{"snappy", codec("snappy", sarama.CompressionSnappy)},
		{"lz4", codec("lz4", sarama.CompressionLZ4)},
		{"zstd", codec("zstd", sarama.CompressionZSTD)},
		{"groups", groups},
		{"idempotence", idempotence},
		{"transactions", transactions},
		{"topics", topics},
		{"configs", configs},
	}
	found := map[string]string{}
	for _, feature := range features {
		found[feature.name] = "ok"
		if err := feature.attempt(); err != nil {
			found[feature.name] = "failed: " + err.Error()
		}
	}
	printed, _ := json.Marshal(map[string]any{"version": version(), "features": found})
	fmt.Println(string(printed))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/IBM/sarama" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}

func topicOf(feature string) string { return prefix + "-" + feature }

func expect(found, expected any) error {
	if !reflect.DeepEqual(found, expected) {
		return fmt.Errorf("%v instead of %v", found, expected)
	}
	return nil
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

func send(feature string, sent []string, config *sarama.Config) error {
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(messages(feature, sent))
}

func messages(feature string, sent []string) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for _, value := range sent {
		messages = append(messages, &sarama.ProducerMessage{
			Topic:   topicOf(feature),
			Key:     sarama.StringEncoder("key"),
			Value:   sarama.StringEncoder(value),
			Headers: []sarama.RecordHeader{{Key: []byte("name"), Value: []byte("header")}},
		})
	}
	return messages
}

func read(feature string, count int) ([]*sarama.ConsumerMessage, error) {
	consumer, err := sarama.NewConsumer(brokers, config())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topicOf(feature), 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	defer partition.Close()
	var found []*sarama.ConsumerMessage
	timeout := time.After(wait)
	for len(found) < count {
		select {
		case message := <-partition.Messages():
			found = append(found, message)
		case <-timeout:
			return nil, fmt.Errorf("%d of %d records", len(found), count)
		}
	}
	return found, nil
}

func readValues(feature string, count int) ([]string, error) {
	found, err := read(feature, count)
	var values []string
	for _, message := range found {
		values = append(values, string(message.Value))
	}
	return values, err
}

func exchange(feature string, config *sarama.Config) error {
	if err := send(feature, values, config); err != nil {
		return err
	}
	found, err := readValues(feature, len(values))
	if err != nil {
		return err
	}
	return expect(found, values)
}

func records() error {
	if err := send("records", []string{"value"}, config()); err != nil {
		return err
	}
	found, err := read("records", 1)
	if err != nil {
		return err
	}
	header := found[0].Headers[0]
	seen := []string{string(found[0].Key), string(found[0].Value), string(header.Key), string(header.Value)}
	return expect(seen, []string{"key", "value", "name", "header"})
}

func codec(feature string, codec sarama.CompressionCodec) func() error {
	return func() error {
		config := config()
		config.Producer.Compression = codec
		config.Producer.Flush.Messages = len(values)
		return exchange(feature, config)
	}
}

func idempotent() *sarama.Config {
	config := config()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

func idempotence() error { return exchange("idempotence", idempotent()) }

func transactions() error {
	config := idempotent()
	config.Producer.Transaction.ID = topicOf("transactions")
	producer, err := sarama.NewSyncProducer(brokers, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for _, step := range []struct {
		value string
		end   func() error
	}{{"dropped", producer.AbortTxn}, {"kept", producer.CommitTxn}} {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		if err := producer.SendMessages(messages("transactions", []string{step.value})); err != nil {
			return err
		}
		if err := step.end(); err != nil {
			return err
		}
	}
	found, err := readValues("transactions", 1)
	if err != nil {
		return err
	}
	return expect(found, []string{"kept"})
}

type member struct {
	count int
	done  context.CancelFunc
	found []string
}

func (*member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (*member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (member *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		member.found = append(member.found, string(message.Value))
		session.MarkMessage(message, "")
		if len(member.found) == member.count {
			session.Commit()
			member.done()
			return nil
		}
	}
	return nil
}

func groups() error {
	for _, sent := range [][]string{{"1", "2"}, {"3"}} {
		if err := send("groups", sent, config()); err != nil {
			return err
		}
		group, err := sarama.NewConsumerGroup(brokers, topicOf("groups"), config())
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(context.Background(), wait)
		member := &member{count: len(sent), done: cancel}
		err = group.Consume(within, []string{topicOf("groups")}, member)
		cancel()
		if closed := group.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		if err := expect(member.found, sent); err != nil {
			return err
		}
	}
	return nil
}

func topics() error {
	admin, err := sarama.NewClusterAdmin(brokers, config())
	if err != nil {
		return err
	}
	defer admin.Close()
	for _, end := range []string{"made", "gone"} {
		detail := &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: -1}
		if err := admin.CreateTopic(topicOf(end), detail, false); err != nil {
			return err
		}
	}
	return admin.DeleteTopic(topicOf("gone"))
}

func configs() error {
	admin, err := sarama.NewClusterAdmin(brokers, config())
	if err != nil {
		return err
	}
	defer admin.Close()
	minute := "60000"
	entries := map[string]sarama.IncrementalAlterConfigsEntry{
		"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &minute},
	}
	return admin.IncrementalAlterConfig(sarama.TopicResource, topicOf("configs"), entries, false)
}
