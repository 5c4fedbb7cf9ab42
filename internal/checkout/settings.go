package checkout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Settings are what applies to the checkouts of an organization, besides their products.
type Settings struct {
	Version    int64 // counts the changes; 0: the defaults
	ShopName   string
	Accent     string // a color such as #0a7d4f; "" for that of the page
	SupportURL string
	UnderUSD   money.USD
	CostMaxBps int
	// EmbedOrigins are the origins whose pages may show the page of a checkout in a frame; none: no page does.
	EmbedOrigins []string
}

// equals reports whether settings are the same, of whichever version.
func (s Settings) equals(compared Settings) bool {
	return s.Version == compared.Version && s.ShopName == compared.ShopName && s.Accent == compared.Accent &&
		s.SupportURL == compared.SupportURL && s.UnderUSD == compared.UnderUSD && s.CostMaxBps == compared.CostMaxBps &&
		slices.Equal(s.EmbedOrigins, compared.EmbedOrigins)
}

const (
	// embedOriginsMax bounds how many origins embed the page: each is sent with every answer.
	embedOriginsMax     = 10
	embedOriginBytesMax = 200

	// costMaxBpsDefault is how much of the amount due collecting a payment may cost, unless the organization says
	// otherwise.
	costMaxBpsDefault = 300
	costMaxBpsMost    = 10_000

	// settingsKind names the settings in the audit log, where they have the id of their organization.
	settingsKind = "CHECKOUT_SETTINGS"

	mailPrefix = "mailto:"
)

// underUSDMost bounds the tolerance in dollars.
var underUSDMost = pricing.MustRead("1000")

var accentPattern = regexp.MustCompile(`^#[0-9a-f]{6}$`)

// embedOriginPattern is a scheme with a host in ASCII, and a port if it is not the usual one. It has no wildcard: one
// would let the pages of strangers at the same domain embed the page.
var embedOriginPattern = regexp.MustCompile(
	`^https?://([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(:[1-9][0-9]{0,4})?$`)

// IsEmbedOrigin reports whether a text is an origin that may embed the page of a checkout: with https, or with http on
// a local network. Rule CO-119.
func IsEmbedOrigin(text string, isLocal bool) bool {
	return len(text) <= embedOriginBytesMax && embedOriginPattern.MatchString(text) &&
		(strings.HasPrefix(text, "https://") || isLocal)
}

// readEmbedOrigins checks the origins of a draft, with spaces between them. Capital letters mean the same.
func readEmbedOrigins(text string, isLocal bool) (origins []string, err error) {
	const param = "embedOrigins"
	for _, origin := range strings.Fields(strings.ToLower(text)) {
		origin = strings.TrimSuffix(origin, "/")
		origin = strings.TrimSuffix(origin, ":443")
		if !IsEmbedOrigin(origin, isLocal) {
			return nil, refuse(param, "embedOrigins has to have origins such as https://shop.example.com, "+
				"without a path and with spaces between them.")
		}
		if !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	if len(origins) > embedOriginsMax {
		return nil, refuse(param, "embedOrigins has to have at most %d origins.", embedOriginsMax)
	}
	return origins, nil
}

func queueSettings(b *pgx.Batch, orgID string, settings *Settings) {
	*settings = Settings{CostMaxBps: costMaxBpsDefault}
	b.Queue(`
		SELECT version, coalesce(shop_name, ''), coalesce(accent, ''), coalesce(support_url, ''), under_usd,
			cost_max_bps, embed_origins
		FROM checkout_settings WHERE org_id = $1`, orgID).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (found Settings, err error) {
			err = row.Scan(&found.Version, &found.ShopName, &found.Accent, &found.SupportURL, &found.UnderUSD,
				&found.CostMaxBps, &found.EmbedOrigins)
			if len(found.EmbedOrigins) == 0 {
				found.EmbedOrigins = nil
			}
			return found, err
		})
		if len(found) == 1 {
			*settings = found[0]
		}
		return err
	})
}

// LoadSettings returns the settings of an organization, or the defaults.
func (s *Service) LoadSettings(ctx context.Context, orgID string) (settings Settings, err error) {
	err = s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) { queueSettings(b, orgID, &settings) })
	if err != nil {
		return Settings{}, fmt.Errorf("read the checkout settings of %s: %w", orgID, err)
	}
	return settings, nil
}

// SettingsDraft is the settings as a person writes them. An empty text leaves the choice to the page.
type SettingsDraft struct {
	ShopName, Accent, SupportURL string
	UnderUSD                     string // dollars
	CostMaxBps                   int
	EmbedOrigins                 string // with spaces between them
	// SeenVersion is the version of the settings that the person saw. A later one is not overwritten.
	SeenVersion int64
}

// read checks a draft as a whole. Errors: faults INVALID_REQUEST, INVALID_AMOUNT.
func (d SettingsDraft) read(isLocal bool) (Settings, error) {
	settings := Settings{
		Version: d.SeenVersion, ShopName: d.ShopName, Accent: strings.ToLower(d.Accent), SupportURL: d.SupportURL,
		CostMaxBps: d.CostMaxBps,
	}
	if d.ShopName != "" {
		if problem := describeTextProblem(d.ShopName, nameRunesMax, false); problem != "" {
			return Settings{}, refuse("shopName", "shopName %s.", problem)
		}
	}
	if settings.Accent != "" && !accentPattern.MatchString(settings.Accent) {
		return Settings{}, refuse("accentColor", "accentColor has to be a color such as #0a7d4f.")
	}
	if err := checkSupportURL(d.SupportURL, isLocal); err != nil {
		return Settings{}, err
	}
	tolerance, err := pricing.Parse(d.UnderUSD, pricing.USDDecimals)
	if err != nil || tolerance.Cmp(underUSDMost) > 0 {
		return Settings{}, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingWritten,
			"underUsd has to be 0 to %s dollars with at most two digits after the point, such as 0.50.",
			underUSDMost.Text()).WithParam("underUsd")
	}
	if settings.UnderUSD, err = money.ParseUSD(tolerance.Text()); err != nil {
		return Settings{}, fmt.Errorf("read the tolerance %q: %w", d.UnderUSD, err)
	}
	if settings.EmbedOrigins, err = readEmbedOrigins(d.EmbedOrigins, isLocal); err != nil {
		return Settings{}, err
	}
	if d.CostMaxBps < 1 || d.CostMaxBps > costMaxBpsMost {
		return Settings{}, refuse("costMaxBps", "costMaxBps has to be 1 to %d basis points.", costMaxBpsMost)
	}
	return settings, nil
}

// checkSupportURL checks where payers ask the shop: a page of the web, or an address for mails.
func checkSupportURL(text string, isLocal bool) error {
	if text == "" {
		return nil
	}
	const param = "supportUrl"
	if address, isMail := strings.CutPrefix(text, mailPrefix); isMail {
		isPrintable := !strings.ContainsFunc(address, func(r rune) bool { return r < '!' || r > '~' })
		if customer.CheckEmail(address) != nil || !isPrintable || strings.ContainsAny(address, "?&#%") {
			return refuse(param, "supportUrl has to have one plain e-mail address after mailto:.")
		}
		return nil
	}
	if problem := describeURLProblem(text, isLocal); problem != "" {
		return refuse(param, "supportUrl %s.", problem).
			WithAdvice("An e-mail address is written as mailto:help@example.com.")
	}
	return nil
}

// auditDetail returns the settings for the audit log.
func (s Settings) auditDetail() map[string]any {
	return map[string]any{
		"shopName": s.ShopName, "accentColor": s.Accent, "supportUrl": s.SupportURL, "underUsd": s.UnderUSD.String(),
		"costMaxBps": s.CostMaxBps, "embedOrigins": strings.Join(s.EmbedOrigins, " "),
	}
}

// SaveSettings replaces the settings of an organization, unless they changed since they were seen. They apply to
// checkouts that are made later. The same settings again write nothing. Errors: faults INVALID_REQUEST, INVALID_AMOUNT,
// INVALID_STATE. Rule PAGE-87.
func (s *Service) SaveSettings(
	ctx context.Context, orgID string, d SettingsDraft, requester audit.Actor,
) (after Settings, err error) {
	wanted, err := d.read(s.IsLocal)
	if err != nil {
		return Settings{}, err
	}
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		before, err := lockSettings(ctx, tx, orgID)
		if err != nil {
			return err
		}
		if before.Version != d.SeenVersion {
			return newSettingsChanged()
		}
		if after = wanted; after.equals(before) {
			return nil
		}
		if err := writeSettings(ctx, tx, orgID, &after, requester); err != nil {
			return err
		}
		from, to := before.auditDetail(), after.auditDetail()
		maps.DeleteFunc(from, func(name string, value any) bool { return reflect.DeepEqual(value, to[name]) })
		maps.DeleteFunc(to, func(name string, _ any) bool { _, isChanged := from[name]; return !isChanged })
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: orgID, Actor: requester, Action: "checkout_settings.changed", ResourceKind: settingsKind,
			ResourceID: orgID, Detail: map[string]any{"version": after.Version, "from": from, "to": to},
		})
	})
	if pg.ViolatesConstraint(err, "checkout_settings_pkey") {
		err = newSettingsChanged() // Another person saved the first ones.
	}
	if err != nil {
		return Settings{}, fmt.Errorf("save the checkout settings of %s: %w", orgID, err)
	}
	return after, nil
}

func newSettingsChanged() error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"These settings were changed since you opened them.").
		WithAdvice("Look at the present ones and make your change again.")
}

// lockSettings returns the settings that no other transaction changes until this one ends. Without a row there is
// nothing to lock: of two first rows the database takes one.
func lockSettings(ctx context.Context, tx pg.Tx, orgID string) (settings Settings, err error) {
	_, err = tx.Exec(ctx, `SELECT FROM checkout_settings WHERE org_id = $1 FOR NO KEY UPDATE`, orgID)
	if err != nil {
		return settings, fmt.Errorf("lock the checkout settings: %w", err)
	}
	b := &pgx.Batch{}
	queueSettings(b, orgID, &settings)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return settings, fmt.Errorf("read the checkout settings: %w", err)
	}
	return settings, nil
}

// errNotAtVersion says that the locked settings are not at the version that was read.
var errNotAtVersion = errors.New("the checkout settings are at another version")

// writeSettings writes settings over the version that they have, and counts it.
func writeSettings(ctx context.Context, tx pg.Tx, orgID string, settings *Settings, requester audit.Actor) error {
	args := []any{
		orgID, settings.Version, settings.ShopName, settings.Accent, settings.SupportURL, settings.UnderUSD,
		settings.CostMaxBps, tx.Now, requester.Kind + " " + requester.ID, settings.EmbedOrigins,
	}
	if settings.EmbedOrigins == nil {
		args[len(args)-1] = []string{}
	}
	statement := `
		UPDATE checkout_settings SET version = version + 1, shop_name = nullif($3, ''), accent = nullif($4, ''),
			support_url = nullif($5, ''), under_usd = $6, cost_max_bps = $7, updated_at = greatest($8, updated_at),
			updated_by = $9, embed_origins = $10
		WHERE org_id = $1 AND version = $2`
	if settings.Version == 0 {
		statement = `
			INSERT INTO checkout_settings (org_id, version, shop_name, accent, support_url, under_usd, cost_max_bps,
				updated_at, updated_by, embed_origins)
			VALUES ($1, $2::bigint + 1, nullif($3, ''), nullif($4, ''), nullif($5, ''), $6, $7, $8, $9, $10)`
	}
	tag, err := tx.Exec(ctx, statement, args...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errNotAtVersion
	}
	if err != nil {
		return fmt.Errorf("write the checkout settings: %w", err)
	}
	settings.Version++
	return nil
}
