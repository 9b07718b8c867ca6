package explore

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/geobench/geobench/internal/base/geo"
	"github.com/geobench/geobench/internal/base/txn"
	"github.com/geobench/geobench/internal/bench/workload/smallbank"
)

// call is a transaction that a client sends.
type call struct {
	at     time.Duration
	region geo.Region
	id     txn.ID
	proc   txn.ProcID
	args   []byte
	// attempt is the value of txn.Transaction.Attempt.
	attempt uint8
}

func (c *call) transaction() *txn.Transaction {
	return &txn.Transaction{ID: c.id, Proc: c.proc, Args: c.args, Attempt: c.attempt}
}

// answer is the answer to a client's transaction.
type answer struct {
	at     time.Duration
	status txn.Status
}

// script returns, by client, the calls that the clients of a region must send; nil if clients draw their transactions.
func (w *world) script(r geo.Region) [][]call {
	if w.calls == nil {
		return nil
	}
	script := make([][]call, w.load.clients)
	for _, c := range w.calls {
		if c.region == r {
			i := w.load.clientOf(c.id)
			script[i] = append(script[i], c)
		}
	}
	return script
}

// describe returns a readable form of a transaction, such as "depositChecking of customers 0 and 3, amount 17" or "r1
// a2+1".
func (l *load) describe(c *call) string {
	if l.run != nil {
		return fmt.Sprintf("%s %x", runProcedures().Lookup(c.proc).Name, c.args)
	}
	if !l.bank {
		return string(c.args)
	}
	name := ""
	for _, p := range smallbank.Procedures() {
		if p.ID == c.proc {
			name = p.Name
		}
	}
	if name == "lookup" {
		return "lookup of " + strings.TrimSpace(string(c.args))
	}
	numbers := bankNumbersOf(c.args)
	text := fmt.Sprintf("%s of customers %d and %d", name, numbers[0], numbers[1])
	if len(numbers) > 2 {
		text += fmt.Sprintf(", amount %d", numbers[2])
	}
	return text
}

// rename returns the arguments of a call in which each row i is replaced by rows[i]. It leaves rows in groups
// unchanged.
func (l *load) rename(c *call, rows []int) []byte {
	// The explorer cannot interpret the arguments of a run's workload.
	if l.run != nil {
		return c.args
	}
	if !l.bank {
		return rowOperand.ReplaceAllFunc(c.args, func(operand []byte) []byte {
			row, err := strconv.Atoi(string(operand[1:]))
			if err != nil || row >= len(rows) {
				return operand
			}
			return fmt.Appendf(nil, "%c%d", operand[0], rows[row])
		})
	}
	if c.proc == bankNumbers["lookup"] {
		var customer int
		if _, err := fmt.Sscanf(string(c.args), customerName, &customer); err != nil {
			return c.args
		}
		return lookupArgs(uint64(rows[customer]))
	}
	numbers := bankNumbersOf(c.args)
	numbers[0], numbers[1] = uint64(rows[numbers[0]]), uint64(rows[numbers[1]])
	return bankArgs(numbers...)
}

// bankArgs encodes the arguments of a SmallBank procedure other than lookup: customers and, if the procedure moves
// money, an amount.
func bankArgs(numbers ...uint64) (args []byte) {
	for _, n := range numbers {
		args = binary.BigEndian.AppendUint64(args, n)
	}
	return args
}

func bankNumbersOf(args []byte) (numbers []uint64) {
	for ; len(args) >= 8; args = args[8:] {
		numbers = append(numbers, binary.BigEndian.Uint64(args))
	}
	return numbers
}

// rowOperand matches an operand of simload's procedure that refers to a single row outside of groups.
var rowOperand = regexp.MustCompile(`\b[rwadsxj][0-9]+`)

// customerName is the format of customers' names, by which transactions look up customers.
const customerName = "Client%d"

func lookupArgs(customer uint64) []byte {
	return fmt.Appendf(nil, "%-24s", fmt.Sprintf(customerName, customer))
}
