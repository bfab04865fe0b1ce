/* Fathom: bytes of a sector, by disk: fathom_sectors=4096,512. */
static int fathom_sectors[1 + MAX_DEV];

static int __init fathom_sectors_setup(char *text)
{
	get_options(text, ARRAY_SIZE(fathom_sectors), fathom_sectors);
	return 1;
}
__setup("fathom_sectors=", fathom_sectors_setup);

