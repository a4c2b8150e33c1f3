/* Runs the model on inputs that are files of raw elements, and writes the trace of the run:
   trace_model input0.bin ... > run.jsonl */
#include <stdio.h>
#include <stdlib.h>
#include "model.h"
#include "observe.h"

static unsigned char memory[@MEMORY@]
#if defined(__GNUC__) || defined(__clang__)
    __attribute__((aligned(64)))
#endif
    ;
static const size_t input_bytes[] = {@INPUTS@}, output_bytes[] = {@OUTPUTS@};

static void put(void *to, const char *text, size_t length) { fwrite(text, 1, length, (FILE *)to); }

int main(int count, char **names) {
  void *inputs[@IN@ + 1], *outputs[@OUT@ + 1];
  sardonyx_context context = {memory, 0, 0, 0, 0, 0, 0};
  int i, error;
  if (count != @IN@ + 1) {
    fprintf(stderr, "%d input files are needed\n", @IN@);
    return 2;
  }
  for (i = 0; i < @IN@; i++) {
    FILE *file = fopen(names[i + 1], "rb");
    inputs[i] = malloc(input_bytes[i] + 64);
    if (!file || !inputs[i] || fread(inputs[i], 1, input_bytes[i], file) != input_bytes[i]) {
      fprintf(stderr, "%s: %lu bytes are needed\n", names[i + 1], (unsigned long)input_bytes[i]);
      return 2;
    }
    fclose(file);
  }
  for (i = 0; i < @OUT@; i++)
    if (!(outputs[i] = malloc(output_bytes[i] + 64))) return 2;
  context.weights = sardonyx_weights();
  context.inputs = (const void *const *)inputs;
  context.outputs = outputs;
  sardonyx_trace(put, stdout);
  error = sardonyx_run(&context);
  if (error) fprintf(stderr, "error %d in operation %d\n", error, (int)context.operation);
  for (i = 0; i < @IN@; i++) free(inputs[i]);
  for (i = 0; i < @OUT@; i++) free(outputs[i]);
  return error ? 1 : 0;
}
