package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/geobench/geobench/internal/ops/identity"
)

// HandIn is all that a worker hands in at its end, and what it went by. It lies in a ConfigMap, which others may write:
// a seal, made with a key that this worker and the operator alone have, binds it to the worker and to its run.
type HandIn struct {
	// Run is the BenchmarkRun's UID, Region and Index tell the worker.
	Run, Region string
	Index       int
	// Config is the identity.Digest of the worker's configuration file as it has read it.
	Config string
	// StartAt is the start that it was told, as KeyStartAt has it.
	StartAt string
	// History and Report are what KeyHistory and KeyReport hold.
	History string
	Report  []byte
}

// sealed is KeySeal's JSON.
type sealed struct {
	Config  string `json:"config"`
	StartAt string `json:"startAt"`
	Seal    string `json:"seal"`
}

func (h *HandIn) parts() [][]byte {
	return [][]byte{[]byte(h.Run), []byte(h.Region), []byte(strconv.Itoa(h.Index)), []byte(h.Config), []byte(h.StartAt), []byte(h.History), h.Report}
}

// Seal returns what KeySeal is to hold.
func (h *HandIn) Seal(key []byte) (string, error) {
	b, err := json.Marshal(sealed{h.Config, h.StartAt, identity.Seal(key, h.parts()...)})
	return string(b), err
}

// Verify holds what lies in the ConfigMap against the seal there, and what the worker says that it went by against h:
// Config and StartAt are what it should be. The error says what is wrong.
func (h *HandIn) Verify(seal string, key []byte) error {
	if seal == "" {
		return fmt.Errorf("it has no %s", KeySeal)
	}
	var s sealed
	if err := json.Unmarshal([]byte(seal), &s); err != nil {
		return fmt.Errorf("%s: %w", KeySeal, err)
	}
	said := *h
	said.Config, said.StartAt = s.Config, s.StartAt
	switch {
	case !identity.Sealed(s.Seal, key, said.parts()...):
		return errors.New("its seal is not that of this worker over this report")
	case s.Config != h.Config:
		return errors.New("the worker was given another configuration than the operator's: somebody has replaced its ConfigMap")
	case s.StartAt != h.StartAt:
		return fmt.Errorf("the worker was told to start at %s, not at %s as the others were", s.StartAt, h.StartAt)
	}
	return nil
}
