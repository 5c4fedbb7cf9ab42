package ops

import (
	"runtime/debug"

	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Version describes the running program.
type Version struct {
	Commit   string `json:"commit"`   // "unknown" where the program was built outside of a repository
	Modified bool   `json:"modified"` // whether the sources differed from the commit
	Go       string `json:"go"`
	API      string `json:"api"`      // the version in the paths of the REST interface
	Payloads string `json:"payloads"` // the date of the version that webhook payloads follow
}

// ThisVersion returns the version of this program, from the compiler's build information.
func ThisVersion() Version {
	v := Version{Commit: "unknown", Go: "unknown", API: "v1", Payloads: event.APIVersion}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
