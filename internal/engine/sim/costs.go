package sim

import "time"

// Costs are the CPU times of operations on a node. A node has a single core for all operations.
type Costs struct {
	// Message is charged for each input of the node (a message, a transaction, a timer) and for each message and answer
	// that it sends.
	Message time.Duration
	// Kilobyte is charged per 1000 bytes received or sent.
	Kilobyte time.Duration
	// Key is charged for each operation on the store.
	Key time.Duration
	// Step is charged for each step of a protocol.StepCounter.
	Step time.Duration
}

// DefaultCosts are the measured costs of a node. Bytes and keys are the values that BenchmarkCosts prints,
//
//	go test ./internal/engine/protocol/calvin -run NONE -bench Costs -benchtime 1000000x
//
// on an idle machine. A key operation includes its share of the transaction: decoding, locks, procedure, answer and
// garbage collection. The protocol accounts for 0.3 us of a message's cost. The remainder is the message's share of
// frames, wake-ups and system calls in the real-time driver, which sends messages in batches when it is busy. The step
// cost is the value that
//
//	go test ./internal/engine/protocol/detock -run NONE -bench Resolver
//
// prints.
var DefaultCosts = Costs{
	Message:  1500 * time.Nanosecond,
	Kilobyte: 500 * time.Nanosecond,
	Key:      200 * time.Nanosecond,
	Step:     200 * time.Nanosecond,
}

// On returns the costs on milliCPU thousandths of a core. A node uses a single core, so a value above 1000 makes no
// difference; a lower value increases the costs proportionally. 0 means 1000.
func (c Costs) On(milliCPU int64) Costs {
	if milliCPU <= 0 || milliCPU >= 1000 {
		return c
	}
	slower := func(d time.Duration) time.Duration { return d * 1000 / time.Duration(milliCPU) }
	return Costs{Message: slower(c.Message), Kilobyte: slower(c.Kilobyte), Key: slower(c.Key), Step: slower(c.Step)}
}

// of returns the CPU time for the given numbers of messages in and out, bytes, key operations, and steps of a
// protocol.StepCounter.
func (c Costs) of(messages, bytes int, keys, steps int64) time.Duration {
	return time.Duration(messages)*c.Message + time.Duration(bytes)*c.Kilobyte/1000 + time.Duration(keys)*c.Key + time.Duration(steps)*c.Step
}
