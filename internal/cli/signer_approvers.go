package cli

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/app"
)

type signerApprovers struct {
	List   signerApproversList   `cmd:"" default:"withargs" help:"Show the decisions of this host (the default)."`
	Found  signerApproversFound  `cmd:"" help:"Admit a passkey by the fingerprint that its owner reads out."`
	Retire signerApproversRetire `cmd:"" help:"Let a passkey end although the rule needs it."`
}

type signerConfigFlag struct {
	ConfigFile string `name:"config" short:"c" type:"existingfile" env:"COFFER_CONFIG" required:"" help:"The signer's configuration."`
}

type signerApproversList struct{ signerConfigFlag }

func (c signerApproversList) Run(std streams) error {
	conf, err := app.ReadSignerConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	orders, err := app.ApproverOrders(conf)
	if err != nil {
		return err
	}
	if len(orders) == 0 {
		fmt.Fprintln(std.out, "Nothing was decided about approvers at this host.")
	}
	for _, o := range orders {
		if o.RetiredID != "" {
			fmt.Fprintf(std.out, "%s  %s  RETIRE %s  because %s\n", o.DecidedAt, o.OrgID, o.RetiredID, o.Reason)
			continue
		}
		fmt.Fprintf(std.out, "%s  %s  FOUND %s of %s, to %s  because %s\n", o.DecidedAt, o.OrgID, o.Fingerprint,
			o.Email, o.Right, o.Reason)
	}
	return nil
}

type signerApproversFound struct {
	signerConfigFlag
	Org         string `arg:"" help:"The organization, such as org_01…, or OPERATORS."`
	Email       string `arg:"" help:"The e-mail address of the passkey's owner."`
	Right       string `arg:"" help:"APPROVE for payments, ENROL for other passkeys and the rule."`
	Fingerprint string `arg:"" help:"The 20 digits that its owner reads out over another channel."`
	Reason      string `name:"because" required:"" help:"Who read it out, and how."`
}

func (c signerApproversFound) Run(std streams) error {
	conf, err := app.ReadSignerConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	order, err := app.FoundApprover(conf, c.Org, c.Email, c.Right, c.Fingerprint, c.Reason)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out,
		"The passkey %s of %s may be enrolled, to %s. It counts after its cooling-off. No money moved.\n",
		order.Fingerprint, order.Email, order.Right)
	return nil
}

type signerApproversRetire struct {
	signerConfigFlag
	Org    string `arg:"" help:"The organization, such as org_01…, or OPERATORS."`
	ID     string `arg:"" help:"The passkey, such as apk_01…"`
	Reason string `name:"because" required:"" help:"Why the passkey ends although the rule needs it."`
}

func (c signerApproversRetire) Run(std streams) error {
	conf, err := app.ReadSignerConfig(c.ConfigFile)
	if err != nil {
		return err
	}
	if err := app.RetireApprover(conf, c.Org, c.ID, c.Reason); err != nil {
		return err
	}
	fmt.Fprintf(std.out, "The signer ends %s when the service next asks for it. Until then its signatures count.\n",
		c.ID)
	return nil
}
