/* URL globbing of curl 7.21.1, in miniature: unbalanced braces leave no current
 * URL, and the loop over the URLs takes its length all the same.
 *
 * glob_url splits a URL with sets such as {one,two} and ranges such as [1-9] into
 * parts. An empty set followed by an opening brace that is never closed ends the
 * parsing without storing the first URL in urls->current; next_url then calls
 * strlen on it. The historical fix refuses the URL; -DFIXED builds it.
 *
 * Only the structure is the original's. What would be downloaded is counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GLOB_PATTERN_NUM 9
#define MAX_SET 16
#define MAX_URL 512

typedef enum { GLOB_OK, GLOB_NO_MEM, GLOB_ERROR } GlobCode;
typedef enum { UPT_LITERAL, UPT_SET, UPT_NUM_RANGE } URLPatternType;

typedef struct {
    URLPatternType type;
    char *elements[MAX_SET];
    int size;
    int ptr_s;
    int min_n, max_n, ptr_n;
} URLPattern;

typedef struct {
    URLPattern pattern[GLOB_PATTERN_NUM];
    int size;
    int beenhere;
    char *current;
    char *glob_buffer;
    size_t urllen;
    char errormsg[80];
} URLGlob;

typedef struct {
    long transfers;
    size_t bytes;
    int longest;
} Totals;

static char *copy_of(const char *from, size_t length)
{
    char *copy = malloc(length + 1);
    memcpy(copy, from, length);
    copy[length] = 0;
    return copy;
}

/* {one,two,three}: *at stands behind the brace, and afterwards behind the set. */
static GlobCode glob_set(URLGlob *glob, const char **at, int *amount)
{
    URLPattern *pat = &glob->pattern[glob->size];
    const char *from = *at;
    pat->type = UPT_SET;
    for (const char *p = from;; p++) {
        if (*p == 0) {
            snprintf(glob->errormsg, sizeof glob->errormsg, "unmatched brace");
            return GLOB_ERROR;
        }
        if (*p != ',' && *p != '}')
            continue;
        /* An empty set is nothing at all. */
        if (*p == '}' && p == from && pat->size == 0) {
            *at = p + 1;
            return GLOB_OK;
        }
        if (pat->size == MAX_SET) {
            snprintf(glob->errormsg, sizeof glob->errormsg, "too many elements in a set");
            return GLOB_ERROR;
        }
        pat->elements[pat->size++] = copy_of(from, (size_t)(p - from));
        from = p + 1;
        if (*p == '}')
            break;
    }
    *amount *= pat->size;
    glob->size++;
    *at = from;
    return GLOB_OK;
}

/* [1-9]: *at stands behind the bracket, and afterwards behind the range. */
static GlobCode glob_range(URLGlob *glob, const char **at, int *amount)
{
    URLPattern *pat = &glob->pattern[glob->size];
    int used = 0;
    pat->type = UPT_NUM_RANGE;
    if (sscanf(*at, "%d-%d]%n", &pat->min_n, &pat->max_n, &used) != 2 || used == 0
        || pat->min_n > pat->max_n || pat->max_n - pat->min_n > 1000) {
        snprintf(glob->errormsg, sizeof glob->errormsg, "bad range");
        return GLOB_ERROR;
    }
    pat->ptr_n = pat->min_n;
    *amount *= pat->max_n - pat->min_n + 1;
    glob->size++;
    *at += used;
    return GLOB_OK;
}

static GlobCode glob_word(URLGlob *glob, const char *url, int *amount)
{
    const char *at = url;
    GlobCode res = GLOB_OK;
    while (*at && res == GLOB_OK && glob->size < GLOB_PATTERN_NUM) {
        if (*at == '{') {
            at++;
            res = glob_set(glob, &at, amount);
        } else if (*at == '[') {
            at++;
            res = glob_range(glob, &at, amount);
        } else {
            size_t length = strcspn(at, "{[");
            URLPattern *pat = &glob->pattern[glob->size++];
            pat->type = UPT_LITERAL;
            pat->elements[0] = copy_of(at, length);
            pat->size = 1;
            at += length;
        }
    }
    return res;
}

/* Puts the URL of the patterns' present positions together. */
static void assemble(URLGlob *glob)
{
    char *out = glob->glob_buffer;
    size_t room = MAX_URL;
    *out = 0;
    for (int i = 0; i < glob->size; i++) {
        URLPattern *pat = &glob->pattern[i];
        int used;
        if (pat->type == UPT_NUM_RANGE)
            used = snprintf(out, room, "%d", pat->ptr_n);
        else
            used = snprintf(out, room, "%s", pat->elements[pat->ptr_s]);
        if (used < 0 || (size_t)used >= room)
            break;
        out += used;
        room -= (size_t)used;
    }
    glob->current = glob->glob_buffer;
}

static GlobCode glob_url(URLGlob **glob, const char *url, int *urlnum)
{
    URLGlob *glob_expand = calloc(1, sizeof *glob_expand);
    int amount = 1;
    glob_expand->glob_buffer = malloc(MAX_URL);
    glob_expand->urllen = strlen(url);
    GlobCode res = glob_word(glob_expand, url, &amount);
    if (res == GLOB_OK)
        assemble(glob_expand);
#ifdef FIXED
    else
        amount = 0;
#else
    /* Behind a part that was understood, an error is an error; with nothing
     * understood yet there is nothing to go through. */
    else if (glob_expand->size > 0)
        amount = 0;
#endif
    *urlnum = amount;
    *glob = glob_expand;
    return res;
}

/* Steps the last pattern that can be stepped. Returns 0 when all are through. */
static int step(URLGlob *glob)
{
    for (int i = glob->size - 1; i >= 0; i--) {
        URLPattern *pat = &glob->pattern[i];
        if (pat->type == UPT_SET) {
            if (++pat->ptr_s < pat->size)
                return 1;
            pat->ptr_s = 0;
        } else if (pat->type == UPT_NUM_RANGE) {
            if (++pat->ptr_n <= pat->max_n)
                return 1;
            pat->ptr_n = pat->min_n;
        }
    }
    return 0;
}

/* The next URL, or NULL after the last. */
static char *next_url(URLGlob *urls)
{
    if (urls->beenhere) {
        if (!step(urls))
            return NULL;
        assemble(urls);
    }
    urls->beenhere = 1;
    size_t len = strlen(urls->current);
    return copy_of(urls->current, len);
}

static void transfer(const char *url, Totals *totals)
{
    unsigned hash = 2166136261u;
    for (const char *p = url; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    totals->transfers++;
    totals->bytes += hash % 5000;
}

static void glob_cleanup(URLGlob *glob)
{
    for (int i = 0; i < glob->size; i++)
        for (int j = 0; j < glob->pattern[i].size; j++)
            free(glob->pattern[i].elements[j]);
    free(glob->glob_buffer);
    free(glob);
}

static int operate(const char *pattern, Totals *totals)
{
    URLGlob *urls = NULL;
    int urlnum = 0;
    char *url;
    GlobCode res = glob_url(&urls, pattern, &urlnum);
    if (urlnum > 0) {
        for (int i = 0; (url = next_url(urls)) != NULL; i++) {
            transfer(url, totals);
            totals->longest = i > totals->longest ? i : totals->longest;
            free(url);
        }
    } else {
        fprintf(stderr, "curl: %s in %s\n", urls->errormsg, pattern);
    }
    glob_cleanup(urls);
    return res == GLOB_OK ? 0 : 1;
}

int main(int argc, char **argv)
{
    Totals totals = {0, 0, 0};
    int refused = 0;
    if (argc < 2) {
        fprintf(stderr, "usage: urlglob URL…\n");
        return 2;
    }
    for (int i = 1; i < argc; i++)
        refused += operate(argv[i], &totals);
    printf("%ld transfers, %zu bytes, %d URLs refused\n", totals.transfers, totals.bytes, refused);
    return 0;
}
