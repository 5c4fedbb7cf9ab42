// Package payerpages is the hosted page on which a payer pays a checkout: choice of a network, QR code, amount,
// address, and what happened to the money. It is a surface below /c, /p and /r, for people without an account. A
// page below /p sells the products of a payment link; its form makes a checkout. A page below /r takes the address of a
// refund.
//
// The path of a page grants reading, and the page shows nothing about a customer. The key in the fragment of its URL,
// which browsers do not send, authorizes actions. The one change without it opens an option, which moves no money.
// The pages set no cookie and read none, so a browser carries no right of its own into a form, and a form that another
// page sends does no more than its author could do alone. That is why there is no token against forged forms.
//
// The package rules out:
//   - a request of a page to another origin, and a script, a style or a frame of one
//   - a frame of another page around it, except of an origin that the organization lists
//   - markup, script or style from a value
//   - a page that needs scripts to say where to pay or what happened to the money
//   - a client that takes the service from others by asking without end
//   - an error of ours whose text a payer sees
//   - a word about a refund, or about whether there is one, without its key
//
// A crash leaves nothing behind; every effect belongs to a transaction of the feature.
package payerpages

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/id"
)

// Prefix begins the paths of the pages.
const Prefix = prefix

const (
	prefix     = "/c/"
	assetsPath = prefix + "assets/"
)

// idPrefix is that of the ids of checkouts.
const idPrefix = "co"

// requestTimeout is how long a request may take. A payer who leaves does not stop it.
const requestTimeout = 30 * time.Second

// Config is what the pages depend on. A field is required unless its comment says otherwise.
type Config struct {
	Checkouts Checkouts
	Links     Links
	Refunds   Refunds
	Proxies   kernel.Proxies // may be empty: then the peer of the connection is the client
	Limits    Limits         // the zero value sets none
	// Cases plays payers at the press of a button. It is nil on every network but LOCAL, and then no path leads to it.
	Cases Cases
	// Origin is the scheme and host of the pages, for the wallets that fetch the icon of a request or open a page in
	// their own browsers; "" without one.
	Origin string
	// Changes tells open pages at once what changed; nil: they hear with the next poll.
	Changes *audit.Follower
	// LivePoll is how often the versions of all checkouts that are open on pages are asked for; 0 means two seconds.
	LivePoll time.Duration
	// Stopped is closed when the server ends, so that it waits for no live stream. It may be nil.
	Stopped <-chan struct{}
	// IsSecure says that payers reach the pages with https alone.
	IsSecure bool
	Clock    func() time.Time // nil means time.Now
	// Observe is called when a request begins; see kernel.Config. It may be nil.
	Observe func(ctx context.Context) (context.Context, func(method, route string, status int))
	Log     *slog.Logger // nil means the default
}

const livePollDefault = 2 * time.Second

type server struct {
	conf     Config
	assets   assets
	rates    limiters
	streams  streams
	versions versionFeed
	players  players
}

// New builds the handler of the paths below /c/, /p/ and /r/.
func New(conf Config) http.Handler {
	if conf.Clock == nil {
		conf.Clock = time.Now
	}
	if conf.Log == nil {
		conf.Log = slog.Default()
	}
	if conf.LivePoll <= 0 {
		conf.LivePoll = livePollDefault
	}
	s := &server{
		conf: conf, assets: readAssets(), rates: newLimiters(conf.Limits, conf.Clock),
		streams: streams{ofClientMax: conf.Limits.Streams, byClient: map[string]int{}},
		versions: versionFeed{
			ask: conf.Checkouts.Versions, changes: conf.Changes, interval: conf.LivePoll, log: conf.Log,
			pages: map[string]*openCheckout{},
		},
	}
	mux := chi.NewRouter()
	for _, line := range []struct {
		method, path string
		limiter      *kernel.Limiter
		serve        func(*request) error
		isAction     bool // it counts for the rate of the checkout
	}{
		{http.MethodGet, prefix + "{checkoutId}", s.rates.views, s.showCheckout, false},
		{http.MethodHead, prefix + "{checkoutId}", s.rates.views, s.showCheckout, false},
		{http.MethodPost, prefix + "{checkoutId}/options", s.rates.opens, s.openOption, true},
		{http.MethodGet, prefix + "{checkoutId}" + solanaPath, s.rates.views, s.describeRequest, false},
		{http.MethodPost, prefix + "{checkoutId}" + solanaPath, s.rates.opens, s.requestPayment, true},
		{http.MethodOptions, prefix + "{checkoutId}" + solanaPath, s.rates.views, s.allowWallets, false},
		{http.MethodGet, prefix + "{checkoutId}/find", s.rates.views, s.showFind, false},
		{http.MethodPost, prefix + "{checkoutId}/find", s.rates.finds, s.find, true},
		{http.MethodGet, prefix + "{checkoutId}/images/{imageId}", s.rates.images, s.showImage, false},
		{http.MethodGet, prefix + "{checkoutId}/receipt", s.rates.views, s.showReceipt, false},
		{http.MethodGet, prefix + "{checkoutId}/receipt.json", s.rates.views, s.downloadReceipt, false},
		{http.MethodGet, LinkPrefix + "{slug}", s.rates.views, s.showLink, false},
		{http.MethodHead, LinkPrefix + "{slug}", s.rates.views, s.showLink, false},
		{http.MethodPost, LinkPrefix + "{slug}", s.rates.buys, s.buy, false},
		{http.MethodGet, LinkPrefix + "{slug}/images/{imageId}", s.rates.images, s.showLinkImage, false},
		{http.MethodGet, LinkPrefix + "{slug}/poster.svg", s.rates.views, s.showPoster, false},
		{http.MethodPost, prefix + "{checkoutId}/refund-key", s.rates.keys, s.giveRefundKey, true},
		{http.MethodGet, RefundPrefix + "{refundId}", s.rates.views, s.askForKey, false},
		{http.MethodHead, RefundPrefix + "{refundId}", s.rates.views, s.askForKey, false},
		{http.MethodPost, RefundPrefix + "{refundId}", s.rates.views, s.withRefund(s.showRefund), false},
		{http.MethodPost, RefundPrefix + "{refundId}/check", s.rates.views, s.withRefund(s.readAddress), false},
		{http.MethodPost, RefundPrefix + "{refundId}/claim", s.rates.claims, s.withRefund(s.claimRefund), false},
		{
			http.MethodPost, RefundPrefix + "{refundId}/challenge", s.rates.views, s.withRefund(s.challengeAddress),
			false,
		},
		{http.MethodPost, RefundPrefix + "{refundId}/proof", s.rates.claims, s.withRefund(s.proveAddress), false},
	} {
		mux.Method(line.method, line.path, s.handle(line.path, line.limiter, line.isAction, line.serve))
	}
	if conf.Cases != nil {
		path := prefix + "{checkoutId}" + casesPath
		mux.Method(http.MethodPost, path, s.handle(path, s.rates.opens, true, s.playCase))
	}
	mux.Get(prefix+"{checkoutId}/live", s.serveLive)
	mux.Get(assetsPath+"{name}", s.assets.serve)
	unrouted := s.handle("", s.rates.views, false, func(*request) error { return errNoPage })
	mux.NotFound(unrouted.ServeHTTP)
	mux.MethodNotAllowed(unrouted.ServeHTTP)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.setHeaders(w.Header())
		mux.ServeHTTP(w, r)
	})
}

// policy lets a page load and run only what this origin serves, and nothing that stands in the page. Only the icon of a
// wallet of the browser is an image that has no address. Rule CO-42.
const (
	policyWithoutFrames = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
		"connect-src 'self'; form-action 'self'; base-uri 'none'; "
	policy = policyWithoutFrames + "frame-ancestors 'none'"
)

// framedPolicy returns the policy of a page that some origins embed. A text that is no origin allows nothing: it would
// be a directive of its own. Rule CO-120.
func framedPolicy(origins []string, isLocal bool) string {
	allowed := ""
	for _, origin := range origins {
		if checkout.IsEmbedOrigin(origin, isLocal) {
			allowed += " " + origin
		}
	}
	if allowed == "" {
		return policy
	}
	return policyWithoutFrames + "frame-ancestors" + allowed
}

// imagePolicy holds for an image that is opened by itself.
const imagePolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"

// permissions switches off every ability of a browser that the pages do not use.
const permissions = "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), display-capture=(), " +
	"encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), microphone=(), midi=(), payment=(), " +
	"picture-in-picture=(), publickey-credentials-create=(), publickey-credentials-get=(), screen-wake-lock=(), " +
	"serial=(), usb=(), xr-spatial-tracking=()"

func (s *server) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Robots-Tag", "noindex, nofollow")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cache-Control", "no-store")
	if s.conf.IsSecure {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// request is one request of a payer.
type request struct {
	*http.Request
	w          http.ResponseWriter
	checkoutID string // "" on the page of a payment link
	slug       string // "" on the page of a checkout
	refundID   string // "" on every other page than that of a refund
	base       string // the path of the page
	origin     string // the scheme and host of the pages; "" if they are not known
	language   *translation
	isNamed    bool // the address chose the language
	isJSON     bool // a program asks, which shows a person the message of the answer
}

// errNoPage is the answer to a path without a page, and to an id that no checkout has: both read alike.
var errNoPage = errors.New("no page")

// bodyBytesMax bounds a form.
const bodyBytesMax = 4 << 10

// handle wraps a handler with what all have: the deadline, the limits, the form of ids, and pages for errors.
func (s *server) handle(
	route string, limiter *kernel.Limiter, isAction bool, serve func(*request) error,
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What a payer chose is completed even if the payer has left.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), requestTimeout)
		defer cancel()
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		if s.conf.Observe != nil {
			observed, answered := s.conf.Observe(ctx)
			ctx = observed
			defer func() { answered(r.Method, route, recorder.status) }()
		}
		r.Body = http.MaxBytesReader(recorder, r.Body, bodyBytesMax)
		req := &request{
			Request: r.WithContext(ctx), w: recorder, checkoutID: chi.URLParam(r, "checkoutId"), origin: s.conf.Origin,
		}
		req.slug, req.refundID = chi.URLParam(r, "slug"), chi.URLParam(r, "refundId")
		switch {
		case req.slug != "":
			req.base = LinkPrefix + req.slug
		case req.refundID != "":
			req.base = RefundPrefix + req.refundID
		default:
			req.base = prefix + req.checkoutID
		}
		req.language, req.isNamed = chooseLanguage(r)
		if req.isJSON = strings.HasSuffix(route, solanaPath); req.isJSON {
			openToOrigins(w.Header())
		}
		defer func() {
			if p := recover(); p == http.ErrAbortHandler {
				panic(p) // the server cuts the connection
			} else if p != nil {
				s.conf.Log.LogAttrs(ctx, slog.LevelError, "page of a payer panicked",
					slog.String("page", req.base), slog.Any("panic", p),
					slog.String("stack", string(debug.Stack())))
				s.refuse(req, http.StatusInternalServerError, "error.internal")
			}
		}()
		if wait := limiter.CountRequest(s.conf.Proxies.RateKey(r)); wait > 0 {
			s.refuseRate(req, wait)
			return
		}
		if isAction {
			if wait := s.rates.actions.CountRequest(req.checkoutID); wait > 0 {
				s.refuseRate(req, wait)
				return
			}
		}
		err := errNoPage
		if id.IsValid(idPrefix, req.checkoutID) || checkout.IsSlug(req.slug) ||
			id.IsValid(refundIDPrefix, req.refundID) {
			err = serve(req)
		}
		if err != nil {
			s.answerError(req, err)
		}
	})
}

// statusRecorder records the status of an answer for Observe.
type statusRecorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// answerError answers with a page that says what happened. A payer reads no text of an error: faults speak to shops.
// Rule CO-44.
func (s *server) answerError(r *request, err error) {
	switch {
	case errors.Is(err, errNoPage) || fault.HasCode(err, fault.CodeNotFound):
		s.refuse(r, http.StatusNotFound, "error.notFound")
	case errors.Is(err, errBadForm):
		s.refuse(r, http.StatusBadRequest, "error.invalid")
	case fault.HasCode(err, fault.RateLimited):
		s.refuseRate(r, limitedWait)
	default:
		s.conf.Log.LogAttrs(r.Context(), slog.LevelError, "serve the page of a payer",
			slog.String("page", r.base), slog.String("method", r.Method), slog.Any("error", err))
		s.refuse(r, http.StatusInternalServerError, "error.internal")
	}
}

// limitedWait is how long a payer waits if the rate of the whole organization is used up. It allows hundreds a minute,
// so there is room again at once; payers who come back at the same moment would use it up again.
const limitedWait = 15 * time.Second

// refuseRate answers a client that asked too often. Rule CO-46.
func (s *server) refuseRate(r *request, wait time.Duration) {
	seconds := kernel.FormatWait(wait)
	r.w.Header().Set("Retry-After", seconds)
	s.refuse(r, http.StatusTooManyRequests, "error.tooMany", "seconds", seconds)
}
