#include "topo/xml.h"

#include <ctype.h>
#include <string.h>

#include "topo/build.h"

void mrw_xml_begin(struct mrw_xml *xml, const char *bytes, size_t nbytes, struct mrw_topo_error *error)
{
	memset(xml, 0, sizeof *xml);
	xml->at = bytes;
	xml->end = bytes + nbytes;
	xml->error = error;
	xml->line = 1;
}

const char *mrw_xml_attribute(const struct mrw_xml *xml, const char *name)
{
	for (uint32_t i = 0; i < xml->nattributes; i++)
		if (strcmp(xml->attribute_names[i], name) == 0)
			return xml->attribute_values[i];
	return NULL;
}

/* The next byte without taking it; -1 at the end. */
static int peek(const struct mrw_xml *xml)
{
	return xml->at < xml->end ? (unsigned char)*xml->at : -1;
}

static int take(struct mrw_xml *xml)
{
	int c = peek(xml);

	if (c < 0)
		return c;
	xml->at++;
	if (c == '\n')
		xml->line++;
	return c;
}

static bool starts(const struct mrw_xml *xml, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(xml->end - xml->at) >= length && memcmp(xml->at, text, length) == 0;
}

static void skip_space(struct mrw_xml *xml)
{
	while (peek(xml) == ' ' || peek(xml) == '\t' || peek(xml) == '\n' || peek(xml) == '\r')
		take(xml);
}

/* Past the next occurrence of text. */
static bool skip_past(struct mrw_xml *xml, const char *text, const char *what)
{
	while (xml->at < xml->end) {
		if (starts(xml, text)) {
			xml->at += strlen(text);
			return true;
		}
		take(xml);
	}
	return mrw_topo_refuse(xml->error, "cut off in %s", what);
}

static bool take_name(struct mrw_xml *xml, char *name)
{
	uint32_t length = 0;

	while (isalnum(peek(xml)) || peek(xml) == '_' || peek(xml) == '-' || peek(xml) == ':' || peek(xml) == '.') {
		if (length == MRW_XML_NAME_BYTES - 1)
			return mrw_topo_refuse(xml->error, "a name longer than %d bytes", MRW_XML_NAME_BYTES - 1);
		name[length++] = (char)take(xml);
	}
	name[length] = '\0';
	if (length > 0)
		return true;
	return peek(xml) < 0 ? mrw_topo_refuse(xml->error, "cut off where a name belongs")
			     : mrw_topo_refuse(xml->error, "byte 0x%02x where a name belongs", (unsigned)peek(xml));
}

static int take_entity(struct mrw_xml *xml)
{
	static const struct {
		const char *name;
		char value;
	} entities[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};

	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++)
		if (starts(xml, entities[i].name)) {
			xml->at += strlen(entities[i].name);
			return entities[i].value;
		}
	mrw_topo_refuse(xml->error, "an entity other than &amp; &lt; &gt; &quot; &apos;");
	return -1;
}

static bool take_value(struct mrw_xml *xml, char *value)
{
	int quote = take(xml);
	uint32_t length = 0;

	if (quote != '"' && quote != '\'')
		return mrw_topo_refuse(xml->error, "an attribute's value wants quotes");
	for (;;) {
		int c = take(xml);
		if (c < 0)
			return mrw_topo_refuse(xml->error, "cut off in an attribute's value");
		if (c == quote)
			break;
		if (c == '<' || c < ' ' || c == 127)
			return mrw_topo_refuse(xml->error, "byte 0x%02x in an attribute's value", (unsigned)c);
		if (c == '&' && (c = take_entity(xml)) < 0)
			return false;
		if (length == MRW_XML_VALUE_BYTES - 1)
			return mrw_topo_refuse(xml->error, "a value longer than %d bytes", MRW_XML_VALUE_BYTES - 1);
		value[length++] = (char)c;
	}
	value[length] = '\0';
	return true;
}

static bool take_attributes(struct mrw_xml *xml)
{
	xml->nattributes = 0;
	for (;;) {
		int before = peek(xml);
		skip_space(xml);
		if (peek(xml) == '>' || peek(xml) == '/' || peek(xml) == '?')
			return true;
		if (peek(xml) >= 0 && !isspace(before))
			return mrw_topo_refuse(xml->error, "byte 0x%02x in element %s", (unsigned)peek(xml), xml->name);
		if (xml->nattributes == MRW_XML_ATTRIBUTES)
			return mrw_topo_refuse(xml->error, "more than %d attributes in element %s", MRW_XML_ATTRIBUTES,
					       xml->name);
		char *name = xml->attribute_names[xml->nattributes];
		if (!take_name(xml, name))
			return false;
		if (mrw_xml_attribute(xml, name) != NULL)
			return mrw_topo_refuse(xml->error, "attribute %s twice in element %s", name, xml->name);
		skip_space(xml);
		if (take(xml) != '=')
			return mrw_topo_refuse(xml->error, "attribute %s has no value", name);
		skip_space(xml);
		if (!take_value(xml, xml->attribute_values[xml->nattributes]))
			return false;
		xml->nattributes++;
	}
}

static enum mrw_xml_event open_element(struct mrw_xml *xml)
{
	if (!take_name(xml, xml->name))
		return MRW_XML_ERROR;
	if (xml->depth == 0 && xml->root_seen)
		return mrw_topo_refuse(xml->error, "a second root element, %s", xml->name), MRW_XML_ERROR;
	if (xml->depth == MRW_XML_DEPTH)
		return mrw_topo_refuse(xml->error, "elements nested deeper than %d", MRW_XML_DEPTH), MRW_XML_ERROR;
	if (!take_attributes(xml))
		return MRW_XML_ERROR;
	xml->empty = peek(xml) == '/';
	if (xml->empty)
		take(xml);
	if (take(xml) != '>')
		return mrw_topo_refuse(xml->error, "element %s is not ended by >", xml->name), MRW_XML_ERROR;
	xml->root_seen = true;
	memcpy(xml->open[xml->depth++], xml->name, sizeof xml->name);
	return MRW_XML_OPEN;
}

static enum mrw_xml_event close_element(struct mrw_xml *xml)
{
	if (!take_name(xml, xml->name))
		return MRW_XML_ERROR;
	skip_space(xml);
	if (take(xml) != '>')
		return mrw_topo_refuse(xml->error, "</%s is not ended by >", xml->name), MRW_XML_ERROR;
	if (xml->depth == 0 || strcmp(xml->open[xml->depth - 1], xml->name) != 0)
		return mrw_topo_refuse(xml->error, "</%s> closes %s", xml->name,
				       xml->depth == 0 ? "nothing" : xml->open[xml->depth - 1]),
		       MRW_XML_ERROR;
	xml->depth--;
	return MRW_XML_CLOSE;
}

enum mrw_xml_event mrw_xml_next(struct mrw_xml *xml)
{
	bool first = xml->line == 1 && !xml->root_seen;

	if (xml->empty) {
		xml->empty = false;
		xml->depth--;
		memcpy(xml->name, xml->open[xml->depth], sizeof xml->name);
		return MRW_XML_CLOSE;
	}
	for (;;) {
		skip_space(xml);
		xml->error->line = xml->line;
		if (xml->at == xml->end) {
			if (xml->depth > 0)
				return mrw_topo_refuse(xml->error, "cut off: element %s is open",
						       xml->open[xml->depth - 1]),
				       MRW_XML_ERROR;
			if (!xml->root_seen)
				return mrw_topo_refuse(xml->error, "no element in it"), MRW_XML_ERROR;
			return MRW_XML_END;
		}
		if (starts(xml, "<!--")) {
			if (!skip_past(xml, "-->", "a comment"))
				return MRW_XML_ERROR;
			continue;
		}
		if (starts(xml, "<?xml ") && first) {
			first = false;
			if (!skip_past(xml, "?>", "the declaration"))
				return MRW_XML_ERROR;
			continue;
		}
		if (starts(xml, "<!DOCTYPE") && xml->lenient && !xml->root_seen) {
			while (xml->at < xml->end && *xml->at != '>' && *xml->at != '[')
				take(xml);
			if (take(xml) == '>')
				continue;
			return mrw_topo_refuse(xml->error, "a document type with declarations"), MRW_XML_ERROR;
		}
		if (xml->lenient && xml->depth > 0 && *xml->at != '<') {
			while (xml->at < xml->end && *xml->at != '<')
				take(xml);
			continue;
		}
		if (starts(xml, "<!") || starts(xml, "<?"))
			return mrw_topo_refuse(xml->error, "a document type or processing instruction"), MRW_XML_ERROR;
		if (take(xml) != '<')
			return mrw_topo_refuse(xml->error, "text between elements"), MRW_XML_ERROR;
		if (peek(xml) != '/')
			return open_element(xml);
		take(xml);
		return close_element(xml);
	}
}
