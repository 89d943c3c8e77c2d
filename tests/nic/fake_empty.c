/* fake_empty.c - a library without anything that is looked for. */
int fake_empty(void);
int fake_empty(void)
{
	return 0;
}
