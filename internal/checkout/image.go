package checkout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/image/webp"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/outbound"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	imageFetchMax   = 5 * time.Second
	imageBytesMax   = 2 << 20
	imageSideMax    = 4096
	imageStoredMax  = 4 << 20 // after it was encoded again
	imageQuality    = 90
	imageAccept     = "image/png, image/jpeg, image/webp"
	imageIDPrefix   = "img"
	pngMediaType    = "image/png"
	jpegMediaType   = "image/jpeg"
	webpHeaderBytes = 12
)

// Image is an image as this service encoded it.
type Image struct {
	MediaType     string // image/png or image/jpeg
	Width, Height int
	Content       []byte
}

// encodedImage is an image with the id under which it is stored.
type encodedImage struct {
	Image

	id   string
	hash [sha256.Size]byte
}

// codec reads one format of images.
type codec struct {
	readConfig func(*bytes.Reader) (image.Config, error)
	decode     func(*bytes.Reader) (image.Image, error)
}

// findCodec returns the codec of a format by its first bytes, whatever the answer calls itself.
func findCodec(content []byte) (codec, bool) {
	switch {
	case bytes.HasPrefix(content, []byte("\x89PNG\r\n\x1a\n")):
		return codec{
			func(r *bytes.Reader) (image.Config, error) { return png.DecodeConfig(r) },
			func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) },
		}, true
	case bytes.HasPrefix(content, []byte("\xff\xd8\xff")):
		return codec{
			func(r *bytes.Reader) (image.Config, error) { return jpeg.DecodeConfig(r) },
			func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
		}, true
	case len(content) >= webpHeaderBytes && string(content[:4]) == "RIFF" && string(content[8:12]) == "WEBP":
		return codec{
			func(r *bytes.Reader) (image.Config, error) { return webp.DecodeConfig(r) },
			func(r *bytes.Reader) (image.Image, error) { return webp.Decode(r) },
		}, true
	}
	return codec{}, false
}

func refuseImage(format string, args ...any) *fault.Fault { return refuse("imageUrl", format, args...) }

// fetchImage fetches, decodes and encodes the image at an address, outside every transaction. Error: fault
// INVALID_REQUEST on imageUrl. Rule PROD-7.
func (s *Service) fetchImage(ctx context.Context, url, orgID string) (encodedImage, error) {
	fetching, cancel := context.WithTimeout(ctx, imageFetchMax)
	defer cancel()
	content, err := s.Images.Get(fetching, url, imageAccept, imageBytesMax)
	var status *outbound.StatusError
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return encodedImage{}, fmt.Errorf("fetch an image: %w", ctx.Err())
	case errors.Is(err, outbound.ErrForbidden):
		return encodedImage{}, refuseImage("imageUrl leads to an address that is not public.")
	case errors.Is(err, outbound.ErrTooLarge):
		return encodedImage{}, refuseImage("The image at imageUrl has more than %d bytes.", imageBytesMax)
	case errors.As(err, &status) && status.Status >= 300 && status.Status < 400:
		return encodedImage{}, refuseImage("imageUrl answers with a redirect, which is not followed.").
			WithAdvice("Give the address to which it leads.")
	case errors.As(err, &status):
		return encodedImage{}, refuseImage("imageUrl answers with the status %d.", status.Status)
	case fetching.Err() != nil:
		return encodedImage{}, refuseImage("imageUrl did not answer within %d seconds.", int(imageFetchMax.Seconds()))
	default:
		return encodedImage{}, refuseImage("imageUrl could not be reached.").
			WithAdvice("Check that it is public and has a valid certificate.")
	}
	s.decoding.Lock()
	defer s.decoding.Unlock()
	encoded, err := encodeImage(content)
	if err != nil {
		return encodedImage{}, err
	}
	hash := sha256.Sum256(encoded.Content)
	return encodedImage{
		Image: encoded, hash: hash, id: id.Derive(imageIDPrefix, orgID, hex.EncodeToString(hash[:])),
	}, nil
}

// encodeImage decodes an image and encodes it again: what a stranger wrote beside its points is gone. It looks at
// the size before it decodes. Error: fault INVALID_REQUEST on imageUrl. Rule PROD-7.
func encodeImage(content []byte) (Image, error) {
	format, isKnown := findCodec(content)
	if !isKnown {
		return Image{}, refuseImage("What is at imageUrl is no PNG, JPEG or WebP.")
	}
	size, err := format.readConfig(bytes.NewReader(content))
	if err != nil {
		return Image{}, refuseImage("The image at imageUrl cannot be read.")
	}
	if size.Width < 1 || size.Height < 1 || size.Width > imageSideMax || size.Height > imageSideMax {
		return Image{}, refuseImage("The image at imageUrl has %d times %d points; each side may have 1 to %d.",
			size.Width, size.Height, imageSideMax)
	}
	decoded, err := format.decode(bytes.NewReader(content))
	if err != nil {
		return Image{}, refuseImage("The image at imageUrl cannot be read.")
	}
	bounds := decoded.Bounds()
	if bounds.Dx() != size.Width || bounds.Dy() != size.Height {
		return Image{}, refuseImage("The image at imageUrl cannot be read.")
	}
	var out bytes.Buffer
	encoded := Image{MediaType: pngMediaType, Width: size.Width, Height: size.Height}
	if bytes.HasPrefix(content, []byte("\x89PNG")) || !isOpaque(decoded) {
		err = png.Encode(&out, decoded)
	} else {
		encoded.MediaType = jpegMediaType
		err = jpeg.Encode(&out, decoded, &jpeg.Options{Quality: imageQuality})
	}
	if err != nil {
		return Image{}, fmt.Errorf("encode an image of %d times %d points: %w", size.Width, size.Height, err)
	}
	if out.Len() > imageStoredMax {
		return Image{}, refuseImage("The image at imageUrl is too detailed: encoded again it has more than %d bytes.",
			imageStoredMax).WithAdvice("Give a smaller one.")
	}
	encoded.Content = out.Bytes()
	return encoded, nil
}

func isOpaque(decoded image.Image) bool {
	opaque, ok := decoded.(interface{ Opaque() bool })
	return ok && opaque.Opaque()
}

// insertImage stores an image, unless the organization has it already.
func insertImage(ctx context.Context, tx pg.Tx, orgID string, stored encodedImage) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO product_images (image_id, org_id, media_type, width, height, hash, content, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (image_id) DO NOTHING`,
		stored.id, orgID, stored.MediaType, stored.Width, stored.Height, stored.hash[:], stored.Content, tx.Now)
	if err != nil {
		return fmt.Errorf("insert image %s: %w", stored.id, err)
	}
	return nil
}

// ImageOf returns the image of a product. Error: fault NOT_FOUND, also for a product without an image or of another
// organization.
func (s *Service) ImageOf(ctx context.Context, orgID, productID string) (found Image, err error) {
	p, err := s.ByID(ctx, orgID, productID)
	if err != nil {
		return Image{}, err
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `
			SELECT media_type, width, height, content FROM product_images WHERE org_id = $1 AND image_id = $2`,
			orgID, p.ImageID).Scan(&found.MediaType, &found.Width, &found.Height, &found.Content)
		if errors.Is(err, pgx.ErrNoRows) {
			return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "This product has no image.")
		}
		if err != nil {
			return fmt.Errorf("read the image of product %s: %w", productID, err)
		}
		return nil
	})
	return found, err
}
