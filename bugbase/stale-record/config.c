/* A configuration reader that leaves a pointer unset on a rare path.
 *
 * Each line becomes a record. Settings and lists set all fields of it; an include
 * line has no value, and the branch for it forgets to say so. The memory comes from
 * malloc and still holds the text of the line, so that the pointer is whatever the
 * text was at that place: nothing after a short path, letters in a long one. The fix
 * sets the field on all paths; -DFIXED builds it.
 *
 * The configuration is one argument with ';' between the lines.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_SIZE 88
#define MAX_RECORDS 64

typedef enum { SETTING, LIST, INCLUDE } record_kind;

typedef struct {
    record_kind kind;
    int line;
    char key[56];
    char *value;
    size_t value_length;
    int items;
} record;

typedef struct {
    record *records[MAX_RECORDS];
    int count;
    uint32_t digest;
    int includes;
} config;

/* A copy of one line in a buffer of its own. */
static char *read_line(const char **at)
{
    size_t length = strcspn(*at, ";");
    size_t kept = length < LINE_SIZE - 1 ? length : LINE_SIZE - 1;
    char *line = malloc(LINE_SIZE);
    memcpy(line, *at, kept);
    line[kept] = 0;
    *at += length;
    if (**at == ';')
        (*at)++;
    return line;
}

static char *copy_of(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    strcpy(copy, text);
    return copy;
}

static int count_items(const char *list)
{
    int items = 1;
    for (; *list; list++)
        items += *list == ',';
    return items;
}

static void set_key(record *r, const char *key, size_t length)
{
    if (length >= sizeof r->key)
        length = sizeof r->key - 1;
    memcpy(r->key, key, length);
    r->key[length] = 0;
}

/* Makes a record of a line; the line's buffer is given back first. */
static record *parse_line(char *line, int number)
{
    char text[LINE_SIZE];
    strcpy(text, line);
    free(line);
    record *r = malloc(sizeof *r);
    char *equals = strchr(text, '=');
    r->line = number;
    if (strncmp(text, "include ", 8) == 0) {
        r->kind = INCLUDE;
        set_key(r, text + 8, strlen(text + 8));
        r->items = 0;
#ifdef FIXED
        r->value = NULL;
#endif
    } else if (equals != NULL && strchr(equals, ',') != NULL) {
        r->kind = LIST;
        set_key(r, text, (size_t)(equals - text));
        r->value = copy_of(equals + 1);
        r->items = count_items(equals + 1);
    } else if (equals != NULL) {
        r->kind = SETTING;
        set_key(r, text, (size_t)(equals - text));
        r->value = copy_of(equals + 1);
        r->items = 1;
    } else {
        r->kind = SETTING;
        set_key(r, text, strlen(text));
        r->value = NULL;
        r->items = 0;
    }
    return r;
}

static void read_config(config *c, const char *text)
{
    const char *at = text;
    while (*at && c->count < MAX_RECORDS) {
        char *line = read_line(&at);
        c->records[c->count] = parse_line(line, c->count + 1);
        c->count++;
    }
}

static uint32_t digest_text(uint32_t digest, const char *text)
{
    for (; *text; text++)
        digest = (digest ^ (unsigned char)*text) * 16777619u;
    return digest;
}

/* A digest of everything that was configured. */
static void digest_config(config *c)
{
    c->digest = 2166136261u;
    for (int i = 0; i < c->count; i++) {
        record *r = c->records[i];
        c->digest = digest_text(c->digest, r->key);
        if (r->value != NULL)
            c->digest = digest_text(c->digest, r->value);
        c->includes += r->kind == INCLUDE;
    }
}

static void free_config(config *c)
{
    for (int i = 0; i < c->count; i++) {
        free(c->records[i]->value);
        free(c->records[i]);
    }
}

int main(int argc, char **argv)
{
    config c;
    if (argc < 2) {
        fprintf(stderr, "usage: config LINE;LINE;…\n");
        return 2;
    }
    memset(&c, 0, sizeof c);
    read_config(&c, argv[1]);
    digest_config(&c);
    printf("%d records, %d includes, digest %08x\n", c.count, c.includes, c.digest);
    free_config(&c);
    return 0;
}
