/* The solver objects of the program, found by their address. */
#include <pthread.h>
#include <stdlib.h>

#include "shim.h"

enum { BUCKETS = 256 };

static struct shim_object *buckets[BUCKETS];
static int created;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
/* One context serves all objects, and one thread at a time uses it. */
static pthread_mutex_t context = PTHREAD_MUTEX_INITIALIZER;

static struct shim_object **bucket(void *solver) { return &buckets[((uintptr_t)solver >> 4) % BUCKETS]; }

/** Takes note of a new object; NULL when there is no memory for that, and the object is then hypre's alone. */
struct shim_object *shim_object_add(void *solver, enum shim_kind kind)
{
    struct shim_object *object = calloc(1, sizeof *object);
    if (!object)
        return NULL;
    object->solver = solver;
    object->kind = kind;
    pthread_mutex_lock(&table);
    object->number = ++created;
    struct shim_object **head = bucket(solver);
    object->next = *head;
    *head = object;
    pthread_mutex_unlock(&table);
    return object;
}

/** The object at an address; NULL for one that hypre made for itself. */
struct shim_object *shim_object_find(void *solver)
{
    pthread_mutex_lock(&table);
    struct shim_object *object = *bucket(solver);
    while (object && object->solver != solver)
        object = object->next;
    pthread_mutex_unlock(&table);
    return object;
}

/** Takes an object out of the table. */
static struct shim_object *take(void *solver)
{
    pthread_mutex_lock(&table);
    struct shim_object **link = bucket(solver);
    while (*link && (*link)->solver != solver)
        link = &(*link)->next;
    struct shim_object *object = *link;
    if (object)
        *link = object->next;
    pthread_mutex_unlock(&table);
    return object;
}

int shim_object_end(void *solver)
{
    struct shim_object *object = take(solver);
    if (!object)
        return 0;
    shim_log("%s: destroyed after %d set-ups by Terrace (%d of them updates), %.6f s, and %d solves with %lld iterations, %.6f s; %d calls served by hypre, %.6f s",
             shim_name(object), object->setups, object->updates, object->setup_seconds, object->solves, (long long)object->cycles, object->solve_seconds, object->fallen,
             object->hypre_seconds);
    shim_release(object);
    shim_structured_release(object->structured, 1);
    free(object);
    return 1;
}

void shim_lock(void) { pthread_mutex_lock(&context); }

void shim_unlock(void) { pthread_mutex_unlock(&context); }
