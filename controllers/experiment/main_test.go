package experiment_test

import (
	"os"
	"testing"

	"github.com/geobench/geobench/controllers/worldtest"
)

func TestMain(m *testing.M) { os.Exit(worldtest.Main(m)) }
