#include <cairn.h>
#include <stdio.h>

int main(void) {
  static double field[1000];
  uint64_t step = 0;
  cairn_session* cairn;
  if (cairn_open(NULL, &cairn) != CAIRN_OK) { /* the run's directory is $CAIRN_PREFIX */
    fprintf(stderr, "%s\n", cairn_error(NULL));
    return 1;
  }
  cairn_protect_value(cairn, 1, "step", &step, 1, CAIRN_UINT64);
  cairn_protect(cairn, 2, field, 1000, CAIRN_DOUBLE);

  const int code = cairn_resume(cairn, NULL); /* the newest checkpoint that is whole; CAIRN_NOT_FOUND: there is none */
  if (code != CAIRN_OK && code != CAIRN_NOT_FOUND) {
    fprintf(stderr, "%s\n", cairn_error(cairn)); /* CAIRN_DIRTY: part of a damaged one may be in `field`: start again */
    return 1;
  }
  printf("from step %llu\n", (unsigned long long)step);

  while (step < 100) {
    for (int i = 0; i < 1000; ++i) field[i] += 0.5 * i;
    ++step;
    if (step % 10 == 0 && cairn_checkpoint(cairn, step, NULL) != CAIRN_OK) {
      fprintf(stderr, "%s\n", cairn_error(cairn)); /* costs this checkpoint only: the run goes on */
    }
  }
  return cairn_close(cairn) == CAIRN_OK ? 0 : 1;
}
