// Package config has the types that sections of the configuration share.
//
// It reads no file: package app composes the sections and reads them. It has no I/O, so a crash
// leaves nothing.
package config

import (
	"fmt"
	"time"
)

// Report receives a problem of a setting, with the remedy.
type Report func(setting, format string, args ...any)

// Duration is a time.Duration in the text form "1m30s".
type Duration time.Duration

// MarshalText formats it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText accepts what time.ParseDuration accepts, above zero.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a length of time such as 30s or 5m", text)
	}
	*d = Duration(v)
	return nil
}

// Rate allows Count requests per Period, after a burst.
type Rate struct {
	Count  int      `toml:"count" comment:"0 means no limit"`
	Period Duration `toml:"every,omitempty"`
	Burst  int      `toml:"burst,omitempty" comment:"how many at once"`
}

// The bounds of a rate. Beyond them a rate would be a mistake or have no effect.
const (
	rateCountMax  = 1_000_000
	ratePeriodMin = time.Millisecond
	ratePeriodMax = 24 * time.Hour
)

// Check reports what is wrong with the rate of a setting.
func (r Rate) Check(setting string, report Report) {
	switch {
	case r.Count == 0:
		return
	case r.Count < 0 || r.Count > rateCountMax:
		report(setting+".count", "is %d; set it between 1 and %d, or to 0 for no limit", r.Count, rateCountMax)
	case time.Duration(r.Period) < ratePeriodMin || time.Duration(r.Period) > ratePeriodMax:
		report(setting+".every", "is %s; set it between %s and %s, such as 1s", time.Duration(r.Period),
			ratePeriodMin, ratePeriodMax)
	case time.Duration(r.Period)/time.Duration(r.Count) < time.Microsecond:
		report(setting+".count", "is %d every %s, which limits nothing; set it lower, or to 0 for no limit",
			r.Count, time.Duration(r.Period))
	}
	if r.Burst < 1 || r.Burst > rateCountMax {
		report(setting+".burst", "is %d; set how many requests are accepted at once, between 1 and %d", r.Burst,
			rateCountMax)
	}
}
