package pages

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// policy lets a page load and run only what this origin serves. Scripts may write no markup from text,
// except by the one named policy. Rule PAGE-5.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types coffer"

// imagePolicy holds for an image that is opened by itself.
const imagePolicy = "default-src 'none'; frame-ancestors 'none'; sandbox"

const (
	reportsPath    = "/policy-reports"
	reportBytesMax = 8 << 10
	hstsValue      = "max-age=31536000"
)

// permissions switches off every ability of a browser that the pages do not use.
const permissions = "accelerometer=(), autoplay=(), camera=(), clipboard-read=(), display-capture=(), " +
	"encrypted-media=(), fullscreen=(), geolocation=(), gyroscope=(), hid=(), idle-detection=(), magnetometer=(), " +
	"microphone=(), midi=(), payment=(), picture-in-picture=(), publickey-credentials-create=(self), " +
	"publickey-credentials-get=(self), screen-wake-lock=(), serial=(), usb=(), xr-spatial-tracking=()"

func (s *server) setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy+"; report-uri "+s.surface.Prefix+reportsPath)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Permissions-Policy", permissions)
	h.Set("Cache-Control", "no-store")
	if s.conf.Origin.Scheme == "https" {
		h.Set("Strict-Transport-Security", hstsValue)
	}
}

// serveReport counts a report of the policy. It reads a bounded part and keeps nothing: anyone can send
// reports.
func (s *server) serveReport(w http.ResponseWriter, r *http.Request) {
	size, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, reportBytesMax))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if size > 0 && s.conf.CountReport != nil {
		s.conf.CountReport()
	}
	w.WriteHeader(http.StatusNoContent)
}

// isByAddress reports whether a browser reached pages of localhost by an address. It keeps no cookie
// with __Host- and no passkey there.
func (s *server) isByAddress(r *http.Request) bool {
	if s.conf.Origin.Hostname() != "localhost" {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}
