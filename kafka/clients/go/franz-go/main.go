// Tries the features of franz-go: franz-go BOOTSTRAP PREFIX
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

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const wait = 60 * time.Second

var (
	seeds  kgo.Opt
	prefix string
	values []string
)

func main() {
	seeds, prefix = kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), os.Args[2]
	for number := 0; number < 10; number++ {
		values = append(values, strings.Repeat(fmt.Sprintf("value %d ", number), 20))
	}
	features := []struct {
		name    string
		attempt func(context.Context) error
	}{
		{"records", records},
		{"gzip", codec("gzip", kgo.GzipCompression())},
		{"snappy", codec("snappy", kgo.SnappyCompression())},
		{"lz4", codec("lz4", kgo.Lz4Compression())},
		{"zstd", codec("zstd", kgo.ZstdCompression())},
		{"groups", groups},
		{"idempotence", idempotence},
		{"transactions", transactions},
		{"topics", topics},
		{"configs", configs},
	}
	found := map[string]string{}
	for _, feature := range features {
		within, cancel := context.WithTimeout(context.Background(), wait)
		found[feature.name] = "ok"
		if err := feature.attempt(within); err != nil {
			found[feature.name] = "failed: " + err.Error()
		}
		cancel()
	}
	printed, _ := json.Marshal(map[string]any{"version": version(), "features": found})
	fmt.Println(string(printed))
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "github.com/twmb/franz-go" {
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

// using calls work with a client that is closed afterwards.
func using(work func(*kgo.Client) error, options ...kgo.Opt) error {
	client, err := kgo.NewClient(append(options, seeds)...)
	if err != nil {
		return err
	}
	defer client.Close()
	return work(client)
}

func recordsOf(feature string, sent []string) []*kgo.Record {
	var records []*kgo.Record
	for _, value := range sent {
		headers := []kgo.RecordHeader{{Key: "name", Value: []byte("header")}}
		records = append(records, &kgo.Record{Topic: topicOf(feature), Key: []byte("key"), Value: []byte(value), Headers: headers})
	}
	return records
}

func send(within context.Context, feature string, sent []string, options ...kgo.Opt) error {
	return using(func(client *kgo.Client) error {
		return client.ProduceSync(within, recordsOf(feature, sent)...).FirstErr()
	}, append(options, kgo.ProducerLinger(20*time.Millisecond))...)
}

func polled(within context.Context, client *kgo.Client, count int) ([]*kgo.Record, error) {
	var found []*kgo.Record
	for len(found) < count {
		fetched := client.PollFetches(within)
		if err := fetched.Err(); err != nil {
			return nil, err
		}
		found = append(found, fetched.Records()...)
	}
	return found, nil
}

func read(within context.Context, feature string, count int) (found []*kgo.Record, err error) {
	start := map[string]map[int32]kgo.Offset{topicOf(feature): {0: kgo.NewOffset().At(0)}}
	err = using(func(client *kgo.Client) error {
		found, err = polled(within, client, count)
		return err
	}, kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	return found, err
}

func valuesOf(records []*kgo.Record) []string {
	var values []string
	for _, record := range records {
		values = append(values, string(record.Value))
	}
	return values
}

func exchange(within context.Context, feature string, options ...kgo.Opt) error {
	if err := send(within, feature, values, options...); err != nil {
		return err
	}
	found, err := read(within, feature, len(values))
	if err != nil {
		return err
	}
	return expect(valuesOf(found), values)
}

func records(within context.Context) error {
	if err := send(within, "records", []string{"value"}, kgo.DisableIdempotentWrite()); err != nil {
		return err
	}
	found, err := read(within, "records", 1)
	if err != nil {
		return err
	}
	header := found[0].Headers[0]
	seen := []string{string(found[0].Key), string(found[0].Value), header.Key, string(header.Value)}
	return expect(seen, []string{"key", "value", "name", "header"})
}

func codec(feature string, codec kgo.CompressionCodec) func(context.Context) error {
	return func(within context.Context) error {
		return exchange(within, feature, kgo.ProducerBatchCompression(codec))
	}
}

// idempotence is the client's default.
func idempotence(within context.Context) error { return exchange(within, "idempotence") }

func transactions(within context.Context) error {
	err := using(func(client *kgo.Client) error {
		for _, step := range []struct {
			value string
			end   kgo.TransactionEndTry
		}{{"dropped", kgo.TryAbort}, {"kept", kgo.TryCommit}} {
			if err := client.BeginTransaction(); err != nil {
				return err
			}
			if err := client.ProduceSync(within, recordsOf("transactions", []string{step.value})...).FirstErr(); err != nil {
				return err
			}
			if err := client.EndTransaction(within, step.end); err != nil {
				return err
			}
		}
		return nil
	}, kgo.TransactionalID(topicOf("transactions")))
	if err != nil {
		return err
	}
	found, err := read(within, "transactions", 1)
	if err != nil {
		return err
	}
	return expect(valuesOf(found), []string{"kept"})
}

func groups(within context.Context) error {
	topic := topicOf("groups")
	for _, sent := range [][]string{{"1", "2"}, {"3"}} {
		if err := send(within, "groups", sent); err != nil {
			return err
		}
		err := using(func(client *kgo.Client) error {
			found, err := polled(within, client, len(sent))
			if err != nil {
				return err
			}
			if err := client.CommitRecords(within, found...); err != nil {
				return err
			}
			return expect(valuesOf(found), sent)
		}, kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return err
		}
	}
	return nil
}

func topics(within context.Context) error {
	return using(func(client *kgo.Client) error {
		creation := kmsg.NewPtrCreateTopicsRequest()
		creation.TimeoutMillis = int32(wait.Milliseconds())
		for _, end := range []string{"made", "gone"} {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = topicOf(end), 2, -1
			creation.Topics = append(creation.Topics, topic)
		}
		created, err := creation.RequestWith(within, client)
		if err != nil {
			return err
		}
		for _, topic := range created.Topics {
			if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
				return err
			}
		}
		deletion := kmsg.NewPtrDeleteTopicsRequest()
		deletion.TimeoutMillis = int32(wait.Milliseconds())
		gone := kmsg.NewDeleteTopicsRequestTopic()
		gone.Topic = kmsg.StringPtr(topicOf("gone"))
		deletion.TopicNames, deletion.Topics = []string{topicOf("gone")}, append(deletion.Topics, gone)
		deleted, err := deletion.RequestWith(within, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(deleted.Topics[0].ErrorCode)
	})
}

func configs(within context.Context) error {
	return using(func(client *kgo.Client) error {
		request := kmsg.NewPtrIncrementalAlterConfigsRequest()
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topicOf("configs")
		option := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		option.Name, option.Op, option.Value = "retention.ms", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("60000")
		resource.Configs = append(resource.Configs, option)
		request.Resources = append(request.Resources, resource)
		response, err := request.RequestWith(within, client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(response.Resources[0].ErrorCode)
	})
}
