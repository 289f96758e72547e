// One attempt to use a cluster with franz-go: it logs in, sends a record to partition 0 of a topic, and reads it back.
// The attempt is JSON on standard input; printed is "ok", or what the client reports.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type attempt struct {
	Address     string
	TLS         bool
	Trusted     string // file with certificates in PEM
	Certificate string // file with the client's key and certificate; "" for none
	Mechanism   string // "" for no SASL
	User        string
	Password    string
	Token       string
	Topic       string
	Seconds     int
}

func main() {
	var given attempt
	err := json.NewDecoder(os.Stdin).Decode(&given)
	if err == nil {
		err = run(given)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ok")
}

func run(given attempt) error {
	options := []kgo.Opt{
		kgo.SeedBrokers(given.Address),
		kgo.RequestRetries(0),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{given.Topic: {0: kgo.NewOffset().At(0)}}),
	}
	if given.TLS {
		config, err := given.tls()
		if err != nil {
			return err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism := given.sasl(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	within, cancel := context.WithTimeout(context.Background(), time.Duration(given.Seconds)*time.Second)
	defer cancel()
	// A producer would repeat this until its records time out.
	if _, err := client.Request(within, kmsg.NewPtrMetadataRequest()); err != nil {
		return err
	}
	record := &kgo.Record{Topic: given.Topic, Value: []byte("of franz-go")}
	if err := client.ProduceSync(within, record).FirstErr(); err != nil {
		return err
	}
	fetched := client.PollRecords(within, 1)
	if err := fetched.Err(); err != nil {
		return err
	}
	if records := fetched.Records(); len(records) != 1 || string(records[0].Value) != string(record.Value) {
		return errors.New("another record was read")
	}
	return nil
}

func (given attempt) tls() (*tls.Config, error) {
	trusted, err := os.ReadFile(given.Trusted)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(trusted)
	if given.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(given.Certificate, given.Certificate)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func (given attempt) sasl() sasl.Mechanism {
	switch given.Mechanism {
	case "PLAIN":
		return plain.Auth{User: given.User, Pass: given.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: given.User, Pass: given.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: given.Token}.AsMechanism()
	}
	return nil
}
