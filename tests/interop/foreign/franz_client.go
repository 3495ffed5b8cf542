// franz-go against a broker: every compression, acks, a group, offsets, administration. Exits with 1 on any difference.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const perCodec = 200

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(ctx context.Context, bootstrap, topic string, codec kgo.CompressionCodec) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerBatchCompression(codec))
	check(err)
	defer client.Close()
	for n := 0; n < perCodec; n++ {
		record := &kgo.Record{
			Topic:   topic,
			Key:     []byte(fmt.Sprintf("key-%d", n)),
			Value:   []byte(fmt.Sprintf("value-%d", n)),
			Headers: []kgo.RecordHeader{{Key: "n", Value: []byte{byte(n)}}},
		}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) { check(err) })
	}
	check(client.Flush(ctx))
}

func consume(ctx context.Context, bootstrap, topic string, want int) {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	check(err)
	defer client.Close()
	for seen := 0; seen < want; {
		fetches := client.PollFetches(ctx)
		check(fetches.Err0())
		fetches.EachRecord(func(record *kgo.Record) {
			if len(record.Headers) != 1 || len(record.Key) == 0 {
				check(fmt.Errorf("offset %d came back without its key or header", record.Offset))
			}
			seen++
		})
	}
	check(client.CommitUncommittedOffsets(ctx))
}

func main() {
	bootstrap, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	check(err)
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, 3, 1, nil, topic)
	check(err)
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, codec := range codecs {
		produce(ctx, bootstrap, topic, codec)
	}
	consume(ctx, bootstrap, topic, perCodec*len(codecs))
	lags, err := admin.Lag(ctx, topic)
	check(err)
	check(lags.Error())
	if lag := lags[topic].Lag.Total(); lag != 0 {
		check(fmt.Errorf("lag of %d after everything was committed", lag))
	}
	_, err = admin.DescribeTopicConfigs(ctx, topic)
	check(err)
	_, err = admin.DeleteGroups(ctx, topic)
	check(err)
	_, err = admin.DeleteTopics(ctx, topic)
	check(err)
	fmt.Println("OK")
}
