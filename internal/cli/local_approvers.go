package cli

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/localworld"
)

// localApprovers founds passkeys where no one has to compare fingerprints, because nothing has a value.
type localApprovers struct {
	Dir string `hidden:"" default:"." type:"path" help:"The folder in which the local world was started."`
}

func (c localApprovers) Run(ctx context.Context, std streams) error {
	info, err := localworld.ReadInfo(c.Dir)
	if err != nil {
		return err
	}
	founded, err := info.FoundApprovers(ctx)
	for _, o := range founded {
		fmt.Fprintf(std.out, "%s  %s  %s\n", o.Email, o.Right, o.Fingerprint)
	}
	if err != nil {
		return err
	}
	if len(founded) == 0 {
		fmt.Fprintln(std.out, "No passkey waits: enrol one in the dashboard first.")
		return nil
	}
	fmt.Fprintln(std.out, "The service enrols them within 10 seconds, and they may sign at once. No money moved.")
	return nil
}
