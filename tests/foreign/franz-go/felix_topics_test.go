package kgo

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// In place of franz-go's function of this name, which makes topics: they are there. FELIX_TOPICS is what
// their names begin with; each is given out once.
var (
	theirTopicsMu sync.Mutex
	theirTopics   = make(map[int]int)
)

func tmpNamedTopicPartitions(tb testing.TB, _ string, partitions int, _ ...kmsg.CreateTopicsRequestTopicConfig) (string, func()) {
	tb.Helper()
	theirTopicsMu.Lock()
	next := theirTopics[partitions]
	theirTopics[partitions]++
	theirTopicsMu.Unlock()
	topic := fmt.Sprintf("%s%d-%d", os.Getenv("FELIX_TOPICS"), partitions, next)
	waitForTopic(tb, topic, partitions)
	return topic, func() {}
}
