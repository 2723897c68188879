/* A thumbnailer that multiplies width, height and depth in 32 bits: at the largest
 * size that it accepts, the product is zero.
 *
 * Sizes up to and including 32768 are accepted. 32768 × 32768 × 4 bytes is 2^34,
 * which is 0 in 32 bits: the buffer for the pixels is empty and the rows that are
 * decoded run out of it until the heap ends. The fix multiplies in 64 bits and
 * refuses more than the limit; -DFIXED builds it.
 *
 * Images are described by a header, WIDTHxHEIGHT:QUALITY:COLOUR; the pixels are made
 * up from it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_SIDE 32768u
#define DEPTH 4u
#define THUMB 16
#define PIXEL_LIMIT (64u * 1024 * 1024)

typedef struct {
    uint32_t width, height;
    uint32_t quality;
    uint32_t colour;
} header;

typedef struct {
    header head;
    uint32_t bytes;
    unsigned char *pixels;
} image;

typedef struct {
    unsigned char pixels[THUMB * THUMB * DEPTH];
    uint32_t checksum;
} thumbnail;

static int parse_header(const char *text, header *h)
{
    memset(h, 0, sizeof *h);
    int fields = sscanf(text, "%ux%u:%u:%u", &h->width, &h->height, &h->quality, &h->colour);
    if (fields < 2)
        return 0;
    if (fields < 3)
        h->quality = 75;
    return 1;
}

/* Whether the image is one that we take. */
static int acceptable(const header *h)
{
    if (h->width == 0 || h->height == 0)
        return 0;
    if (h->width > LARGEST_SIDE || h->height > LARGEST_SIDE)
        return 0;
#ifdef FIXED
    if ((uint64_t)h->width * h->height * DEPTH > PIXEL_LIMIT)
        return 0;
#endif
    return h->quality <= 100;
}

static uint32_t buffer_size(const header *h)
{
    uint32_t bytes = h->width * h->height * DEPTH;
    return bytes;
}

static image *open_image(const header *h)
{
    image *img = calloc(1, sizeof *img);
    img->head = *h;
    img->bytes = buffer_size(h);
    if (img->bytes > PIXEL_LIMIT) {
        free(img);
        return NULL;
    }
    img->pixels = malloc(img->bytes);
    return img;
}

/* One row of pixels, as the decoder delivers it. */
static void decode_row(const header *h, uint32_t row, unsigned char *to)
{
    uint32_t value = h->colour + row * 2654435761u;
    for (uint32_t x = 0; x < h->width; x++) {
        value = value * 1664525u + 1013904223u;
        to[x * DEPTH + 0] = (unsigned char)(value >> 24);
        to[x * DEPTH + 1] = (unsigned char)(value >> 16);
        to[x * DEPTH + 2] = (unsigned char)(value >> 8);
        to[x * DEPTH + 3] = (unsigned char)(h->quality * 255 / 100);
    }
}

static void decode(image *img)
{
    size_t stride = (size_t)img->head.width * DEPTH;
    for (uint32_t row = 0; row < img->head.height; row++)
        decode_row(&img->head, row, img->pixels + row * stride);
}

/* Takes one pixel for each of the thumbnail's. */
static void shrink(const image *img, thumbnail *thumb)
{
    uint32_t sum = 2166136261u;
    for (uint32_t y = 0; y < THUMB; y++) {
        for (uint32_t x = 0; x < THUMB; x++) {
            uint32_t from_x = x * img->head.width / THUMB;
            uint32_t from_y = y * img->head.height / THUMB;
            const unsigned char *from = img->pixels + ((size_t)from_y * img->head.width + from_x) * DEPTH;
            memcpy(&thumb->pixels[(y * THUMB + x) * DEPTH], from, DEPTH);
            sum = (sum ^ from[0]) * 16777619u;
        }
    }
    thumb->checksum = sum;
}

static void close_image(image *img)
{
    free(img->pixels);
    free(img);
}

static int make_thumbnail(const char *text)
{
    header h;
    thumbnail thumb;
    if (!parse_header(text, &h)) {
        fprintf(stderr, "thumbnail: %s is no header\n", text);
        return 0;
    }
    if (!acceptable(&h)) {
        fprintf(stderr, "thumbnail: %s is refused\n", text);
        return 0;
    }
    image *img = open_image(&h);
    if (img == NULL) {
        fprintf(stderr, "thumbnail: %s is too large\n", text);
        return 0;
    }
    decode(img);
    shrink(img, &thumb);
    printf("%s: %08x\n", text, thumb.checksum);
    close_image(img);
    return 1;
}

int main(int argc, char **argv)
{
    int made = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: thumbnail WIDTHxHEIGHT[:QUALITY[:COLOUR]]…\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        made += make_thumbnail(argv[i]);
    printf("%d thumbnails\n", made);
    return 0;
}
