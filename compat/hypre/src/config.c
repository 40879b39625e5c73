/*
 * TERRACE_HYPRE_CONFIG: options of Terrace that win over the program's. A JSON object, the name of a file with one, or a list of key=value, separated
 * by blanks, semicolons or commas. Two keys are not Terrace's: "device" names the device, and "program_options": "ignore" leaves out what the program has set.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

static char message[1000];

/** What the variable says, read once: device, whether options of the program count, and the rest as JSON or as a list. */
static struct {
    int read;
    const char *wrong;
    char device[64];
    int ignore_program;
    char *json;
    char *list;
} given;

int shim_strict(void)
{
    const char *strict = getenv("TERRACE_HYPRE_STRICT");
    return strict && *strict && strcmp(strict, "0") != 0;
}

static char *file_text(const char *name)
{
    FILE *file = fopen(name, "rb");
    if (!file)
        return NULL;
    char *text = NULL;
    if (fseek(file, 0, SEEK_END) == 0) {
        long size = ftell(file);
        rewind(file);
        text = size < 0 ? NULL : malloc((size_t)size + 1);
        if (text)
            text[fread(text, 1, (size_t)size, file)] = 0;
    }
    fclose(file);
    return text;
}

/** Cuts `"key": "value"` with its comma out of a JSON object; 1 when it was there. */
static int cut(char *json, const char *key, char *value, size_t size)
{
    char quoted[40];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    for (char *found = strstr(json, quoted); found; found = strstr(found + 1, quoted)) {
        char *end = found + strlen(quoted);
        end += strspn(end, " \t\r\n");
        if (*end != ':')
            continue;
        end += 1 + strspn(end + 1, " \t\r\n");
        char *close = *end == '"' ? strchr(end + 1, '"') : NULL;
        if (!close || (size_t)(close - end) > size)
            continue;
        memcpy(value, end + 1, (size_t)(close - end - 1));
        value[close - end - 1] = 0;
        close++;
        close += strspn(close, " \t\r\n");
        if (*close == ',') {
            close++;
        } else {
            char *before = found;
            while (before > json && isspace((unsigned char)before[-1]))
                before--;
            if (before > json && before[-1] == ',')
                found = before - 1;
        }
        memmove(found, close, strlen(close) + 1);
        return 1;
    }
    return 0;
}

static const char *own_key(const char *key, const char *value)
{
    if (strcmp(key, "device") == 0) {
        snprintf(given.device, sizeof given.device, "%s", value);
    } else if (strcmp(value, "ignore") == 0 || strcmp(value, "keep") == 0) {
        given.ignore_program = strcmp(value, "ignore") == 0;
    } else {
        snprintf(message, sizeof message, "TERRACE_HYPRE_CONFIG: program_options accepts keep and ignore, not %s", value);
        return message;
    }
    return NULL;
}

static int is_own(const char *key) { return strcmp(key, "device") == 0 || strcmp(key, "program_options") == 0; }

/** Ends a pair of the list at the next separator. A comma is one where another key follows; otherwise it belongs to the value. */
static char *pair_end(char *pair)
{
    char *end = pair + strcspn(pair, " \t\r\n;");
    for (char *comma = memchr(pair, ',', (size_t)(end - pair)); comma; comma = memchr(comma + 1, ',', (size_t)(end - comma - 1)))
        if (comma + 1 == end || memchr(comma + 1, '=', strcspn(comma + 1, ", \t\r\n;")))
            return comma;
    return end;
}

/** Takes the library's own keys out of the list, and sets the others where there is a config. */
static const char *each_pair(terrace_config *config)
{
    char *copy = strdup(given.list);
    const char *wrong = copy ? NULL : "no memory for TERRACE_HYPRE_CONFIG";
    for (char *pair = copy; pair && *pair && !wrong;) {
        char *end = pair_end(pair), *next = *end ? end + 1 : end;
        *end = 0;
        if (*pair) {
            char *equal = strchr(pair, '=');
            if (!equal) {
                snprintf(message, sizeof message, "TERRACE_HYPRE_CONFIG: %s is no key=value, JSON object or file that can be read", pair);
                wrong = message;
                break;
            }
            *equal = 0;
            if (is_own(pair)) {
                wrong = config ? NULL : own_key(pair, equal + 1);
            } else if (config && terrace_config_set_str(config, pair, equal + 1) != TERRACE_SUCCESS) {
                snprintf(message, sizeof message, "TERRACE_HYPRE_CONFIG: %s", shim_last_error());
                wrong = message;
            }
        }
        pair = next;
    }
    free(copy);
    return wrong;
}

static const char *read_variable(void)
{
    const char *variable = getenv("TERRACE_HYPRE_CONFIG");
    if (!variable || !*variable)
        return NULL;
    if (variable[strspn(variable, " \t\r\n")] == '{')
        given.json = strdup(variable);
    else if (!strchr(variable, '='))
        given.json = file_text(variable);
    if (!given.json) {
        given.list = strdup(variable);
        return given.list ? each_pair(NULL) : "no memory for TERRACE_HYPRE_CONFIG";
    }
    char value[64];
    const char *wrong = NULL;
    if (cut(given.json, "device", value, sizeof value))
        wrong = own_key("device", value);
    if (!wrong && cut(given.json, "program_options", value, sizeof value))
        wrong = own_key("program_options", value);
    return wrong;
}

static const char *variable(void)
{
    if (!given.read) {
        given.wrong = read_variable();
        given.read = 1;
    }
    return given.wrong;
}

static void warning(terrace_log_level level, const char *text, void *user)
{
    (void)level;
    (void)user;
    shim_log("%s", text);
}

/** The context of all objects, made by the first set-up. One of several processes has one thread unless the variable names a device. */
const char *shim_context(terrace_context **context)
{
    static terrace_context *shared;
    const char *wrong = variable();
    if (wrong)
        return wrong;
    if (!shared) {
        HYPRE_Int processes = 1;
        hypre_MPI_Comm_size(hypre_MPI_COMM_WORLD, &processes);
        const char *device = *given.device ? given.device : processes > 1 ? "host:1" : "host";
        if (terrace_context_create(device, &shared) != TERRACE_SUCCESS) {
            shared = NULL;
            snprintf(message, sizeof message, "TERRACE_HYPRE_CONFIG: %s", shim_last_error());
            return message;
        }
        terrace_context_set_log(shared, TERRACE_LOG_WARNING, warning, NULL);
    }
    *context = shared;
    return NULL;
}

/** The options of a set-up: those of the program, and over them those of the variable. */
const char *shim_config(const struct shim_options *options, terrace_context *context, terrace_config **config)
{
    const char *wrong = variable();
    if (wrong)
        return wrong;
    *config = NULL;
    if (terrace_config_create(context, config) != TERRACE_SUCCESS)
        return shim_last_error();
    for (int i = 0; i < options->count && !given.ignore_program && !wrong; i++)
        if (terrace_config_set_str(*config, options->entries[i].key, options->entries[i].value) != TERRACE_SUCCESS)
            wrong = shim_last_error();
    if (!wrong && given.json && terrace_config_load_json(*config, given.json) != TERRACE_SUCCESS) {
        snprintf(message, sizeof message, "TERRACE_HYPRE_CONFIG: %s", shim_last_error());
        wrong = message;
    }
    if (!wrong && given.list)
        wrong = each_pair(*config);
    char json[4000];
    if (!wrong && terrace_config_to_json(*config, json, sizeof json, NULL) == TERRACE_SUCCESS && strstr(json, "\"solver."))
        wrong = "TERRACE_HYPRE_CONFIG: options that begin with solver. have no effect here; the Krylov method is the program's";
    if (wrong) {
        terrace_config_destroy(*config);
        *config = NULL;
    }
    return wrong;
}
