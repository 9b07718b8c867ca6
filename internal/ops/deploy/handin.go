package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/geobench/geobench/internal/ops/identity"
)

// HandIn is the final output of a worker, along with the configuration and the start time that the worker used. Other
// clients of the API server may be able to write to the worker's ConfigMap. Therefore a seal binds the output to the
// worker and its run. Only this worker and the operator have the key for the seal.
type HandIn struct {
	// Run is the UID of the BenchmarkRun. Region and Index identify the worker.
	Run, Region string
	Index       int
	// Config is the identity.Digest of the configuration file that the worker read.
	Config string
	// StartAt is the start time that the worker received, in the format of KeyStartAt.
	StartAt string
	// History and Report are the values of KeyHistory and KeyReport.
	History string
	Report  []byte
}

// sealed is the JSON value of KeySeal.
type sealed struct {
	Config  string `json:"config"`
	StartAt string `json:"startAt"`
	Seal    string `json:"seal"`
}

func (h *HandIn) parts() [][]byte {
	return [][]byte{[]byte(h.Run), []byte(h.Region), []byte(strconv.Itoa(h.Index)), []byte(h.Config), []byte(h.StartAt), []byte(h.History), h.Report}
}

// Seal returns the value of KeySeal.
func (h *HandIn) Seal(key []byte) (string, error) {
	b, err := json.Marshal(sealed{h.Config, h.StartAt, identity.Seal(key, h.parts()...)})
	return string(b), err
}

// Verify checks the content of the ConfigMap against its seal, and the Config and StartAt that the worker states
// against the expected values in h. The error describes the mismatch.
func (h *HandIn) Verify(seal string, key []byte) error {
	if seal == "" {
		return fmt.Errorf("it has no %s", KeySeal)
	}
	var s sealed
	if err := json.Unmarshal([]byte(seal), &s); err != nil {
		return fmt.Errorf("%s: %w", KeySeal, err)
	}
	said := *h
	// Take only Config and StartAt from the worker; for all other parts, use the values that the operator expects.
	said.Config, said.StartAt = s.Config, s.StartAt
	switch {
	// Check the seal over the stated values first, because without a valid seal they need not come from the worker.
	case !identity.Sealed(s.Seal, key, said.parts()...):
		return errors.New("its seal is not that of this worker over this report")
	case s.Config != h.Config:
		return errors.New("the worker was given another configuration than the operator's: somebody has replaced its ConfigMap")
	case s.StartAt != h.StartAt:
		return fmt.Errorf("the worker was told to start at %s, not at %s as the others were", s.StartAt, h.StartAt)
	}
	return nil
}
