/* SPDX-License-Identifier: Apache-2.0 */
#include "gzip.h"

#include <errno.h>
#include <zlib.h>

/* Metrics are so alike that the fastest level already makes a tenth of them. */
#define LEVEL       Z_BEST_SPEED
#define WINDOW_BITS (15 + 16) /* the greatest window; 16 asks for the gzip wrapper */
#define MEMORY      8

int
cs_gzip(const struct cs_buffer *input, struct cs_buffer *output)
{
	z_stream stream = {0};
	int result = -ENOMEM;

	if (deflateInit2(&stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY, Z_DEFAULT_STRATEGY) != Z_OK)
		return result;
	if (!cs_buffer_reserve(output, deflateBound(&stream, input->length)))
		goto end;
	stream.next_in = (Bytef *)(void *)input->data;
	stream.avail_in = (uInt)input->length;
	stream.next_out = (Bytef *)(void *)(output->data + output->length);
	stream.avail_out = (uInt)(output->capacity - output->length);
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		goto end;
	output->length += stream.total_out;
	result = 0;
end:
	deflateEnd(&stream);
	return result;
}
