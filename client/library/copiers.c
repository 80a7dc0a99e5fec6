#include "client/library/copiers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "client/library/clock.h"

/* Of the thread that does it: reading the application's memory may be what its handlers are there for. */
static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

struct shared {
  const struct lc_pieces* pieces;
  atomic_size_t next;
};

/* Whatever is taken is copied: so there is no gap before the first that is not taken. */
static void copy_some(struct shared* shared) {
  const struct lc_pieces* pieces = shared->pieces;
  while (lc_left_ms(pieces->deadline) > 0) {
    size_t index = atomic_load(&shared->next);
    do {
      if (index >= pieces->to) return;
    } while (!atomic_compare_exchange_weak(&shared->next, &index, index + 1));
    pieces->copy(pieces->context, index);
  }
}

static void* run(void* shared) {
  copy_some(shared);
  return NULL;
}

size_t lc_copy_pieces(const struct lc_pieces* pieces, unsigned threads) {
  struct shared shared = {.pieces = pieces};
  atomic_init(&shared.next, pieces->from);
  pthread_t helpers[LC_COPIERS_MAX];
  unsigned count = 0;
  int cancel = 0;
  if (threads > LC_COPIERS_MAX) threads = LC_COPIERS_MAX;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the helpers use what is on this stack */
  if (threads > 1) {
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof own_faults / sizeof own_faults[0]; ++i) sigdelset(&all, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* inherited by the helpers */
    while (count + 1 < threads && pthread_create(&helpers[count], NULL, run, &shared) == 0) ++count;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  copy_some(&shared);
  for (unsigned i = 0; i < count; ++i) pthread_join(helpers[i], NULL);
  pthread_setcancelstate(cancel, &cancel);
  return atomic_load(&shared.next);
}
