/* What an archive says of the value in it. */
#ifndef DL_PAGE_H
#define DL_PAGE_H

#include "runtime.h"

/* Whether the comment of an archive goes with a form; else the run is refused. */
bool dl_compare_page(dl_context *context, const dl_form *form, const dl_buffer *comment);

#endif
