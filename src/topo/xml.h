/* xml.h - a small strict reader of XML elements: what topology files need and no more.
 *
 * Elements, attributes, comments, a declaration at the front, the five named entities. Refused: text between elements, document
 * types, other entities, processing instructions, an attribute given twice, anything deeper, longer or more numerous than the
 * limits. Never reads past its bytes; allocates nothing. */
#ifndef MRW_TOPO_XML_H
#define MRW_TOPO_XML_H

#include "topo/topo.h"

enum { MRW_XML_DEPTH = 40, MRW_XML_ATTRIBUTES = 32, MRW_XML_NAME_BYTES = 32, MRW_XML_VALUE_BYTES = 1024 };

enum mrw_xml_event {
	MRW_XML_OPEN,  /* name, its attributes; an empty element <x/> is followed by its MRW_XML_CLOSE as any other */
	MRW_XML_CLOSE, /* name */
	MRW_XML_END,   /* after the one root element, nothing but white space and comments */
	MRW_XML_ERROR  /* error has line and text */
};

struct mrw_xml {
	const char *at, *end;
	struct mrw_topo_error *error; /* its line is kept up to date: the line of the last event */
	uint32_t line, depth, nattributes;
	bool root_seen, empty;
	bool lenient; /* set after mrw_xml_begin(): text in elements and a document type without declarations are passed over */
	char name[MRW_XML_NAME_BYTES];
	char open[MRW_XML_DEPTH][MRW_XML_NAME_BYTES];
	char attribute_names[MRW_XML_ATTRIBUTES][MRW_XML_NAME_BYTES];
	char attribute_values[MRW_XML_ATTRIBUTES][MRW_XML_VALUE_BYTES];
};

void mrw_xml_begin(struct mrw_xml *xml, const char *bytes, size_t nbytes, struct mrw_topo_error *error);
enum mrw_xml_event mrw_xml_next(struct mrw_xml *xml);
/* Value of an attribute of the element opened last, NULL if it has none of that name. */
const char *mrw_xml_attribute(const struct mrw_xml *xml, const char *name);

#endif
