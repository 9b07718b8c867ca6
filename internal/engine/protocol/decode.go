package protocol

import (
	"fmt"

	"github.com/geobench/geobench/internal/base/txn"
)

// A Decoder decodes the bodies of the message kinds of one package. It must not panic on any input; procs prepares the
// transactions in the body. known is false for a kind of another package; m is nil if known is false or err is set.
type Decoder func(kind uint8, body []byte, procs *txn.Registry) (m Message, known bool, err error)

// Decode returns an Engine.Decode for the messages of an engine and of the packages that the engine is built from. The
// kinds of the decoders must be disjoint.
func Decode(engine string, decoders ...Decoder) func(kind uint8, body []byte, procs *txn.Registry) (Message, error) {
	return func(kind uint8, body []byte, procs *txn.Registry) (Message, error) {
		for _, d := range decoders {
			if m, known, err := d(kind, body, procs); known {
				if err != nil {
					return nil, err
				}
				return m, nil
			}
		}
		return nil, fmt.Errorf("message kind %d is not one of %s's", kind, engine)
	}
}
