/*
 * Lines about what is done. TERRACE_HYPRE_LOG: 0 none, 1 every object on stderr, anything else the file to append to. Without it, lines about what
 * hypre serves, or Terrace does otherwise, come on stderr, each once, from the first rank.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim.h"

static pthread_mutex_t lines = PTHREAD_MUTEX_INITIALIZER;

/** Seconds of a clock that only goes forward. */
double shim_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/** hypre's name of a kind of object. */
const char *shim_kind_name(enum shim_kind kind)
{
    static const char *const names[] = {"BoomerAMG", "FSAI", "PFMG", "SMG"};
    return names[kind];
}

/** An object in words; valid until the next call on the thread. */
const char *shim_name(const struct shim_object *object)
{
    static __thread char name[40];
    snprintf(name, sizeof name, "%s %d", shim_kind_name(object->kind), object->number);
    return name;
}

/** The rank of this process; -1 where there is one process, or MPI is not running. */
static int rank_of_many(void)
{
    HYPRE_Int processes = 1, rank = 0;
#ifndef HYPRE_SEQUENTIAL
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (!begun || ended)
        return -1;
#endif
    hypre_MPI_Comm_size(hypre_MPI_COMM_WORLD, &processes);
    hypre_MPI_Comm_rank(hypre_MPI_COMM_WORLD, &rank);
    return processes > 1 ? (int)rank : -1;
}

static void write_line(const char *line)
{
    const char *log = getenv("TERRACE_HYPRE_LOG");
    int file = log && *log && strcmp(log, "0") != 0 && strcmp(log, "1") != 0;
    FILE *out = file ? fopen(log, "a") : stderr;
    if (!out)
        out = stderr;
    int rank = rank_of_many();
    if (rank < 0)
        fprintf(out, "terrace-hypre: %s\n", line);
    else
        fprintf(out, "terrace-hypre, rank %d: %s\n", rank, line);
    if (out != stderr)
        fclose(out);
}

static int level(void)
{
    const char *log = getenv("TERRACE_HYPRE_LOG");
    return !log || !*log ? 1 : strcmp(log, "0") == 0 ? 0 : 2;
}

void shim_log(const char *format, ...)
{
    if (level() < 2)
        return;
    char line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&lines);
    write_line(line);
    pthread_mutex_unlock(&lines);
}

void shim_log_once(const char *format, ...)
{
    static char *told[64];
    static int count;
    char line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (level() < 1 || rank_of_many() > 0)
        return;
    pthread_mutex_lock(&lines);
    int i = 0;
    while (i < count && strcmp(told[i], line) != 0)
        i++;
    if (i == count) {
        write_line(line);
        if (count < 64 && (told[count] = strdup(line)))
            count++;
    }
    pthread_mutex_unlock(&lines);
}

int shim_error(const char *format, ...)
{
    char line[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (level() > 0) {
        pthread_mutex_lock(&lines);
        write_line(line);
        pthread_mutex_unlock(&lines);
    }
    hypre_error_w_msg(HYPRE_ERROR_GENERIC, line);
    return -1;
}

/** The sentence of Terrace's last error on this thread. */
const char *shim_last_error(void)
{
    static __thread char sentence[800];
    terrace_last_error(NULL, sentence, sizeof sentence, NULL);
    return sentence;
}
