package local_test

import (
	"encoding/json"
	"testing"
)

func unmarshal(b []byte, v any) error { return json.Unmarshal(b, v) }

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
