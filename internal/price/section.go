package price

import (
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/config"
	"github.com/cofferpay/coffer/internal/platform/httpjson"
)

// Section is the section of one source in the configuration, which builds the source. The package of
// the source has it; the list of all sections is in package app.
type Section interface {
	// MintIDs returns the setting that names mints, "" for the section itself, and their ids in the
	// file. A section without mints is not used.
	MintIDs() (setting string, ids []string)
	// ReadSecrets reads the files that the section names. read returns a file's content, or "".
	ReadSecrets(read func(setting, file string) string)
	// Check reports what is wrong with the section, except for the ids of mints.
	Check(c SectionCheck)
	// Open builds the source from a checked section. The error begins with the setting.
	Open(e SectionEnv) (NamedSource, error)
}

// SectionCheck is what the check of a section depends on.
type SectionCheck struct {
	HasChain func(chain.Name) bool
	Report   config.Report // settings are named within the section
}

// SectionEnv is what a source is built from, besides its section.
type SectionEnv struct {
	ContractCaller func(chain.Name) (chain.ContractCaller, error)
}

// keepMax bounds how long answers are reused; older ones would be stale.
const keepMax = 5 * time.Minute

// CheckService reports what is wrong with the URL of a service and with how long its answers are
// reused.
func (c SectionCheck) CheckService(url string, keep config.Duration) {
	if _, err := httpjson.NewClient(url, 0); url != "" && err != nil {
		c.Report("url", "%v", err)
	}
	if time.Duration(keep) > keepMax {
		c.Report("keep", "is %s; set it to %s at most", time.Duration(keep), keepMax)
	}
}

// KeyByMint returns a table of a checked section with mint ids as keys.
func KeyByMint[V any](table map[string]V) map[int]V {
	values := map[int]V{}
	for id, v := range table {
		n, err := strconv.Atoi(id)
		if err != nil {
			panic("price: unchecked configuration: " + err.Error())
		}
		values[n] = v
	}
	return values
}
