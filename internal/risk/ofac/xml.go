// Package ofac holds the sanctions list that the United States' Treasury publishes, imported from
// its file (SDN advanced XML) and stored as one sealed snapshot.
//
// It needs no contract and no network, and knows only listed addresses: a listed address is SEVERE,
// any other is NONE. A list that is too old, truncated or changed in the database never counts as
// one that lacks an address. A crash leaves either the former list or the new one, complete.
package ofac

import (
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/risk"
)

// The limits of a file; the real one had some 130 MB and 1000 addresses in 2026.
const (
	fileBytesMax = 1 << 30
	addressesMax = 100_000
	textBytesMax = 4096 // of one stored text
	addressMax   = 200
	depthMax     = 64
	featuresMax  = 1000 // feature types
	typePrefix   = "Digital Currency Address - "
	nameUnknown  = "unnamed"
	// How far its date may be in the future, for another time zone and a file of tomorrow.
	futureMax      = 48 * time.Hour
	nameBytesMax   = 160
	symbolBytesMax = 20
)

// symbols maps the list's own symbols of coins to the usual ones.
var symbols = map[string]string{"XBT": "BTC"}

// Entry is an address of the list.
type Entry struct {
	Address  string `json:"address"`  // as in the list
	Currency string `json:"currency"` // BTC, ETH, USDT; the entry matches any token
	Party    string `json:"party"`    // the list's number for the owner
	Name     string `json:"name"`
}

// List is the content of a file.
type List struct {
	Published  time.Time // the day that the file names
	Digest     [32]byte  // SHA-256 of the file
	Entries    []Entry   // sorted
	Unreadable []string  // texts in the place of addresses that are none
}

// ReadList reads a complete file. It fails if the file has another format, is truncated, has no
// date or no address, or exceeds the limits of such a file.
func ReadList(r io.Reader) (List, error) {
	hash := sha256.New()
	bounded := &io.LimitedReader{R: io.TeeReader(r, hash), N: fileBytesMax}
	p := parser{dec: xml.NewDecoder(bounded), types: map[string]string{}}
	err := p.parseFile()
	if bounded.N <= 0 {
		err = fmt.Errorf("more than %d bytes", fileBytesMax)
	}
	switch {
	case err != nil:
	case !p.sawRoot:
		err = errors.New("it has no element Sanctions")
	case p.list.Published.IsZero():
		err = errors.New("it has no date of issue")
	case len(p.types) == 0:
		err = errors.New("it lists no addresses of digital currencies")
	case len(p.list.Entries) == 0:
		err = errors.New("it has no address of a digital currency")
	}
	if err != nil {
		return List{}, fmt.Errorf("read the sanctions list: %w", err)
	}
	slices.SortFunc(p.list.Entries, func(a, b Entry) int {
		return strings.Compare(a.Address+"\x00"+a.Currency+"\x00"+a.Party, b.Address+"\x00"+b.Currency+"\x00"+b.Party)
	})
	p.list.Entries = slices.Compact(p.list.Entries)
	hash.Sum(p.list.Digest[:0])
	return p.list, nil
}

// parser reads the file in one pass.
type parser struct {
	dec     *xml.Decoder
	sawRoot bool
	types   map[string]string // feature types, by their id: the symbol
	list    List
}

func (p *parser) parseFile() error {
	depth := 0
	for {
		token, err := p.dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.Directive:
			return errors.New("it has a document type, which the list does not have")
		case xml.StartElement:
			if depth++; depth > depthMax {
				return fmt.Errorf("elements nested deeper than %d", depthMax)
			}
			if depth == 1 {
				if t.Name.Local != "Sanctions" || p.sawRoot {
					return fmt.Errorf("it begins with %q", risk.SanitizeText(t.Name.Local))
				}
				p.sawRoot = true
				continue
			}
			consumed, err := p.parseElement(t, depth)
			if err != nil {
				return err
			}
			if consumed {
				depth--
			}
		case xml.EndElement:
			depth--
		}
	}
}

// parseElement reads a relevant element to its end; consumed says whether it did.
func (p *parser) parseElement(t xml.StartElement, depth int) (consumed bool, err error) {
	switch {
	case t.Name.Local == "DateOfIssue" && depth == 2:
		return true, p.parseDate(t)
	case t.Name.Local == "FeatureType":
		return true, p.parseFeatureType(t)
	case t.Name.Local == "DistinctParty":
		return true, p.parseParty(t)
	}
	return false, nil
}

func (p *parser) parseDate(t xml.StartElement) error {
	var d struct{ Year, Month, Day string }
	if err := p.dec.DecodeElement(&d, &t); err != nil {
		return err
	}
	parts := [3]int{}
	for i, text := range []string{d.Year, d.Month, d.Day} {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return errors.New("its date of issue cannot be read")
		}
		parts[i] = n
	}
	day := time.Date(parts[0], time.Month(parts[1]), parts[2], 0, 0, 0, 0, time.UTC)
	if day.Year() != parts[0] || int(day.Month()) != parts[1] || day.Day() != parts[2] || parts[0] < 2000 ||
		parts[0] > 9999 {
		return errors.New("its date of issue is invalid")
	}
	p.list.Published = day
	return nil
}

func (p *parser) parseFeatureType(t xml.StartElement) error {
	var f struct {
		ID   string `xml:"ID,attr"`
		Text string `xml:",chardata"`
	}
	if err := p.dec.DecodeElement(&f, &t); err != nil {
		return err
	}
	symbol, ok := strings.CutPrefix(strings.TrimSpace(f.Text), typePrefix)
	if !ok {
		if strings.Contains(strings.ToLower(f.Text), "digital currency") {
			return fmt.Errorf("an unknown kind of address: %q", risk.SanitizeText(f.Text))
		}
		return nil
	}
	symbol = strings.TrimSpace(symbol)
	if f.ID == "" || symbol == "" || len(symbol) > symbolBytesMax || len(p.types) >= featuresMax {
		return fmt.Errorf("an unknown kind of address: %q", risk.SanitizeText(f.Text))
	}
	if renamed, ok := symbols[symbol]; ok {
		symbol = renamed
	}
	p.types[f.ID] = symbol
	return nil
}

// parseParty reads one listed person or company. It decodes piece by piece, because most parties
// have thousands of bytes and no address.
func (p *parser) parseParty(t xml.StartElement) error {
	ref := attributeValue(t, "FixedRef")
	name, primary := "", false
	first := len(p.list.Entries)
	depth := 1
	for depth > 0 {
		token, err := p.dec.Token()
		if err != nil {
			return asUnexpectedEnd(err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > depthMax {
				return fmt.Errorf("elements nested deeper than %d", depthMax)
			}
			switch t.Name.Local {
			case "Alias":
				text, err := p.parseAlias(t)
				if err != nil {
					return err
				}
				depth--
				if text != "" && (name == "" || !primary && attributeValue(t, "Primary") == "true") {
					name, primary = text, attributeValue(t, "Primary") == "true"
				}
			case "Feature":
				if symbol, ok := p.types[attributeValue(t, "FeatureTypeID")]; ok {
					if err := p.parseFeature(t, symbol, ref); err != nil {
						return err
					}
					depth--
				}
			}
		case xml.EndElement:
			depth--
		case xml.Directive:
			return errors.New("it has a document type, which the list does not have")
		}
	}
	if name == "" {
		name = nameUnknown
	}
	for i := first; i < len(p.list.Entries); i++ {
		p.list.Entries[i].Name = name
	}
	return nil
}

// parseAlias returns the parts of a name, in their order.
func (p *parser) parseAlias(t xml.StartElement) (string, error) {
	var a struct {
		Parts []string `xml:"DocumentedName>DocumentedNamePart>NamePartValue"`
	}
	if err := p.dec.DecodeElement(&a, &t); err != nil {
		return "", asUnexpectedEnd(err)
	}
	name := risk.SanitizeText(strings.Join(strings.Fields(strings.Join(a.Parts, " ")), " "))
	return strings.ToValidUTF8(name[:min(len(name), nameBytesMax)], ""), nil
}

func (p *parser) parseFeature(t xml.StartElement, symbol, party string) error {
	var f struct {
		Details []string `xml:"FeatureVersion>VersionDetail"`
	}
	if err := p.dec.DecodeElement(&f, &t); err != nil {
		return asUnexpectedEnd(err)
	}
	found := false
	for _, text := range f.Details {
		text = strings.TrimSpace(text)
		switch {
		case text == "":
			continue
		case len(text) > addressMax || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
			p.list.Unreadable = append(p.list.Unreadable, risk.SanitizeText(text))
		default:
			p.list.Entries = append(p.list.Entries,
				Entry{Address: text, Currency: symbol, Party: risk.SanitizeText(party)})
		}
		found = true
	}
	if !found {
		return fmt.Errorf("party %q has an address of %s without a text", risk.SanitizeText(party), symbol)
	}
	if len(p.list.Entries)+len(p.list.Unreadable) > addressesMax {
		return fmt.Errorf("more than %d addresses", addressesMax)
	}
	return nil
}

func attributeValue(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return a.Value[:min(len(a.Value), textBytesMax)]
		}
	}
	return ""
}

// asUnexpectedEnd converts an early end of the file to io.ErrUnexpectedEOF.
func asUnexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
